package watch

import (
	"math/rand/v2"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// TestRangesFindTheWatchesOfAKey compares the look-up with the definition of a span, while watches come and go, with
// keys of few bytes so that bounds often meet.
func TestRangesFindTheWatchesOfAKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := func() []byte {
		k := make([]byte, 1+r.IntN(3))
		for i := range k {
			k[i] = "\x00ab\xff"[r.IntN(4)]
		}
		return k
	}
	h := &Hub{ranges: newRanges()}
	st := &Stream{hub: h}
	watches := watchers{}
	found := 0
	for range 20_000 {
		switch span := index.NewSpan(key(), key()); {
		case len(watches) < 30 && !span.Empty && !span.Single:
			w := &watcher{stream: st, span: span, synced: true}
			watches[w] = struct{}{}
			h.ranges.add(w)
		case len(watches) > 0 && r.IntN(4) == 0:
			for w := range watches {
				h.ranges.remove(w)
				delete(watches, w)
				break
			}
		}
		e := newEvent(index.NewItem(backend.Row{Key: key()}), nil)
		h.ranges.stage(e)
		for w := range watches {
			if want := w.span.Contains(string(e.item.Key)); want != (len(w.staged) == 1) {
				t.Fatalf("%q in %+v: staged %d, want %t", e.item.Key, w.span, len(w.staged), want)
			}
			found += len(w.staged)
			w.staged = nil
		}
		h.staging = nil
	}
	if found < 1000 {
		t.Fatal("few keys were in a span:", found)
	}
}
