package cluster

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// rows are the outages of all tests so far.
var rows struct {
	sync.Mutex
	all []history.Row
}

func report(r history.Row) {
	rows.Lock()
	defer rows.Unlock()
	rows.all = append(rows.all, r)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if len(rows.all) > 0 {
		fmt.Printf("\nHow long clients went without an answer: longest span between two requests that succeeded.\n%s\n",
			history.Table(rows.all))
	}
	os.Exit(code)
}
