package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// A refused connection counts for half a minute.
func TestConnections(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		at   time.Time
		full bool
	}{
		"never":    {},
		"now":      {now, true},
		"lately":   {now.Add(-refusalMemory + 1), true},
		"long ago": {now.Add(-refusalMemory), false},
	} {
		got := Connections(backend.Connections{RefusedAt: c.at, Refused: "too many connections"}, now)
		if (got != nil) != c.full || c.full && !strings.Contains(got.Message, "too many connections") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
