package compactor

import (
	"testing"
	"time"
)

// What is written after history was lost has revisions that were others' before: what was noted of those says nothing
// about them.
func TestLostHistoryIsForgotten(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }
	for name, later := range map[string]struct{ rev, incarnation int64 }{
		"another incarnation": {1001, 2},
		"a lower revision":    {900, 1},
	} {
		var h history
		h.note(at(0), 1000, 1)
		h.note(at(1), later.rev, later.incarnation)
		if rev, ok := h.old(at(60), time.Hour); ok {
			t.Errorf("%s: %d counts as an hour old", name, rev)
		}
		if rev, _ := h.old(at(61), time.Hour); rev != later.rev {
			t.Errorf("%s: %d, want %d", name, rev, later.rev)
		}
	}
}

// losing is an engine whose history is lost when it has been asked once.
type losing struct {
	Engine
	asked bool
}

func (l *losing) ask(before, after int64) int64 {
	if l.asked {
		return after
	}
	l.asked = true
	return before
}

func (l *losing) Revision() int64    { return l.ask(9, 5) }
func (l *losing) Incarnation() int64 { return l.ask(1, 2) }

func TestLookWhileHistoryIsLost(t *testing.T) {
	h := history{incarnation: 1}
	h.look(time.Now(), &losing{})
	if h.incarnation != 1 || h.noted[0].rev != 5 {
		t.Errorf("revision %d noted for incarnation %d", h.noted[0].rev, h.incarnation)
	}
}
