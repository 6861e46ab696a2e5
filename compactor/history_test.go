package compactor

import (
	"testing"
	"time"
)

// After a loss of history, new writes reuse lost revisions: the times recorded for those do not apply to them.
func TestLostHistoryIsForgotten(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }
	for name, later := range map[string]struct{ rev, epoch int64 }{
		"another epoch":    {1001, 2},
		"a lower revision": {900, 1},
	} {
		var h history
		h.note(at(0), 1000, 1)
		h.note(at(1), later.rev, later.epoch)
		if rev, ok := h.old(at(60), time.Hour); ok {
			t.Errorf("%s: %d counts as an hour old", name, rev)
		}
		if rev, _ := h.old(at(61), time.Hour); rev != later.rev {
			t.Errorf("%s: %d, want %d", name, rev, later.rev)
		}
	}
}

// losing is an engine that loses its history after the first call.
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

func (l *losing) Revision() int64 { return l.ask(9, 5) }
func (l *losing) Epoch() int64    { return l.ask(1, 2) }

func TestRecordWhileHistoryIsLost(t *testing.T) {
	h := history{epoch: 1}
	h.record(time.Now(), &losing{})
	if h.epoch != 1 || h.noted[0].rev != 5 {
		t.Errorf("revision %d recorded for epoch %d", h.noted[0].rev, h.epoch)
	}
}
