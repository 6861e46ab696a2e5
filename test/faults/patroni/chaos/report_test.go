package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/faults/cluster/audit"
)

func TestReport(t *testing.T) {
	r := &report{began: time.Now(), seed: 7}
	for i := range 3 {
		r.add(&entry{
			kind: "replica is killed", detail: "sqlstore-1", began: r.began.Add(time.Minute),
			noWrite: time.Duration(i+1) * time.Second, recovered: time.Duration(10*i+1) * time.Second,
		})
	}
	r.add(&entry{kind: "disk is full", began: r.began, with: "replica is killed", failed: "no recovery"})
	r.checked(audit.Result{Requests: 5, Writes: 2})
	r.checked(audit.Result{Requests: 6, Writes: 3})
	r.note("something")
	text := r.String()
	for _, want := range []string{
		"seed 7", "4 faults of 2 kinds, 2 rounds", "checked: 11 requests", "5 writes",
		"replica is killed  3       2.0 s                 3.0 s    11.0 s                21.0 s", "60.0 s",
		"no recovery",
		"something",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}
