package store

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// many writes keys 0 to n-1 with values of so many bytes, in transactions of so many puts.
func many(t *testing.T, s *Store, n, puts, bytes int) {
	t.Helper()
	for i := 0; i < n; i += puts {
		txn := &Txn{}
		for j := i; j < min(n, i+puts); j++ {
			txn.Success = append(txn.Success,
				Op{Put: &PutRequest{Key: fmt.Appendf(nil, "k%06d", j), Value: make([]byte, bytes)}})
		}
		if _, err := s.Txn(within(t), txn); err != nil {
			t.Fatal(err)
		}
	}
}

// stalled opens a stream with watches of everything from revision 2, whose client takes the answers to its requests and
// nothing else.
func stalled(t *testing.T, s *Store, watches int) *WatchStream {
	t.Helper()
	st := s.NewWatchStream()
	t.Cleanup(st.Close)
	for range watches {
		st.Watch(everything(2))
	}
	for range watches {
		if r := next(t, st); !r.Created {
			t.Fatalf("got %+v", r)
		}
	}
	return st
}

// A slow watch keeps its own events in memory, and nothing else of the batches that they came in.
func TestSlowWatchHoldsItsOwnEventsOnly(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1, WindowBytes: 1})
	eventually(t, "the index is complete", s.index.Complete)
	st := s.NewWatchStream()
	defer st.Close()
	created(t, st, WatchRequest{Key: []byte("k000000")}) // from here on nobody takes anything
	var others []weak.Pointer[index.Item]
	st2 := s.NewWatchStream()
	created(t, st2, everything(0))
	many(t, s, 8, 8, 100)
	st2.mu.Lock()
	for _, w := range st2.watches {
		for _, e := range w.pending[1:] {
			others = append(others, weak.Make(e.item))
		}
	}
	st2.mu.Unlock()
	st2.Close()
	many(t, s, 8, 1, 100) // pushes the first ones out of the index and the window
	if len(others) != 7 {
		t.Fatalf("%d other events", len(others))
	}
	eventually(t, "the others are let go", func() bool {
		runtime.GC()
		for _, o := range others {
			if o.Value() != nil {
				return false
			}
		}
		return true
	})
	if n := s.WatchStats().Pending; n != 2 {
		t.Errorf("%d events wait, not 2", n)
	}
}

// What a watch stages for a large transaction it does not keep room for.
func TestLargeTransactionLeavesNoRoom(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	st := s.NewWatchStream()
	defer st.Close()
	id := created(t, st, everything(0))
	many(t, s, 20*stagedKept, 20*stagedKept, 1)
	expectRevisions(t, st, 2, 2, 20*stagedKept)
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if n := cap(st.watches[id].staged); n > stagedKept {
		t.Errorf("there is room for %d events", n)
	}
	if n := s.hub.pending.Load(); n != 0 {
		t.Errorf("%d bytes are counted, and nothing waits", n)
	}
}

// Superseded values that are not in memory are read for one response at a time.
func TestSupersededValuesFitResponses(t *testing.T) {
	const n, size = 40, responseBytes / 4
	f := &faults{Backend: openSQLite(t)}
	s := openStore(t, f, Config{CacheBytes: 1})
	many(t, s, n, 4, size) // a revision is a response by itself
	st := s.NewWatchStream()
	defer st.Close()
	w := everything(0)
	w.PrevKV = true
	created(t, st, w)
	for i := 0; i < n; i += 2 {
		if _, err := s.Delete(within(t),
			&DeleteRequest{Key: fmt.Appendf(nil, "k%06d", i), End: fmt.Appendf(nil, "k%06d", i+2)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Txn(within(t), &Txn{Success: []Op{{Put: &PutRequest{Key: []byte("z")}}}}); err != nil {
		t.Fatal(err)
	}
	got, first := 0, s.Revision()-n/2
	for rev := first; rev <= s.Revision(); {
		r, bytes := next(t, st), 0
		for _, e := range r.Events {
			if e.Row.ModRevision != rev && e.Row.ModRevision != rev+1 {
				t.Fatalf("revision %d comes after %d", e.Row.ModRevision, rev)
			}
			rev = e.Row.ModRevision
			if got++; e.Row.Deleted != (e.Prev != nil && len(e.Prev.Value) == size) {
				t.Fatalf("got %s", eventText(e))
			}
			if e.Prev != nil {
				bytes += len(e.Prev.Value)
			}
		}
		if r.Revision != rev {
			t.Errorf("the response ends with revision %d and says %d", rev, r.Revision)
		}
		if bytes > 2*responseBytes {
			t.Errorf("a response has %d bytes", bytes)
		}
		if rev == s.Revision() {
			break
		}
	}
	if got != n+1 {
		t.Errorf("%d events, not %d", got, n+1)
	}
}

// Clients that begin thousands of watches of the past and read nothing cost no more than the common budget; others are
// not held up by them; and they get all that they have missed if they read in the end.
func TestStalledWatchesShareABudget(t *testing.T) {
	const (
		objects, size    = 1000, 4 << 10
		streams, watches = 16, 64
		budget           = 1 << 20
	)
	for name, window := range map[string]int64{"window": 64 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, openSQLite(t), Config{WindowBytes: window, WatchBytes: budget})
			many(t, s, objects, 1, size)
			last := s.Revision()
			var most atomic.Int64
			look := func() {
				if n := s.WatchStats().PendingBytes; n > most.Load() {
					most.Store(n)
				}
			}
			var idle []*WatchStream
			for range streams {
				idle = append(idle, stalled(t, s, watches))
				look()
			}
			for range 4 { // one after the other, each behind all that stalls
				good := s.NewWatchStream()
				created(t, good, everything(2))
				expectRevisions(t, good, 2, last, 1)
				good.Close()
				look()
			}
			put(t, s, "now", "") // for those that are synced
			look()
			// One response's worth of events may be in the hands of each reader on top of it.
			if most.Load() > budget+catchUpReads*(pieceBytes+2*size) {
				t.Errorf("%d bytes were held, the budget is %d", most.Load(), budget)
			}
			id := map[int64]int64{} // by watch, the last revision that it has had
			for done := 0; done < watches; {
				r := next(t, idle[0])
				for _, e := range r.Events {
					if want := max(id[r.ID], 1) + 1; e.Row.ModRevision != want {
						t.Fatalf("watch %d gets revision %d, not %d", r.ID, e.Row.ModRevision, want)
					}
					id[r.ID] = e.Row.ModRevision
				}
				if id[r.ID] == s.Revision() {
					done++
				}
			}
			for _, st := range idle {
				st.Close()
			}
			if n := s.hub.pending.Load(); n != 0 {
				t.Errorf("%d bytes are counted, and nothing waits", n)
			}
		})
	}
}

// Watches of many prefixes that go on at nearby revisions, as those of a server that starts again, share what is read
// for them.
func TestNearbyWatchesShareReads(t *testing.T) {
	const objects, streams, watches = 2000, 4, 50
	var reads atomic.Int64
	gate := make(chan struct{})
	f := &faults{Backend: openSQLite(t)}
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		reads.Add(1)
		<-gate // until all have come
		return nil
	}
	s := openStore(t, f, Config{WindowBytes: 1})
	many(t, s, objects, 1, 10)
	var all []*WatchStream
	for i := range streams {
		st := s.NewWatchStream()
		defer st.Close()
		all = append(all, st)
		for j := range watches {
			n := i*watches + j // of 10 objects each
			st.Watch(WatchRequest{
				Key: fmt.Appendf(nil, "k%05d", n), End: fmt.Appendf(nil, "k%05d", n+1), StartRevision: int64(2 + n%7),
			})
		}
		for range watches {
			next(t, st)
		}
	}
	close(gate)
	for i, st := range all {
		got := 0
		for _, w := range st.watches {
			n := i*watches + int(w.req.ID)
			for j := range 10 {
				if 10*n+j+2 >= 2+n%7 {
					got++
				}
			}
		}
		for got > 0 {
			got -= len(next(t, st).Events)
		}
	}
	// Each by itself would need one at least.
	if n := reads.Load(); n > streams*watches/2 {
		t.Errorf("%d reads for %d watches", n, streams*watches)
	}
}

// A client that takes a notice of progress and then nothing more holds no more than any other.
func TestBudgetBehindProgress(t *testing.T) {
	const budget = 1 << 10
	s := openStore(t, openSQLite(t), Config{WatchBytes: budget})
	st := s.NewWatchStream()
	defer st.Close()
	created(t, st, everything(0))
	put(t, s, "a", "")
	next(t, st)
	st.RequestProgress()
	if r := next(t, st); r.ID != -1 {
		t.Fatalf("got %+v", r)
	}
	first := s.Revision() + 1
	for range 4 {
		put(t, s, "a", string(make([]byte, budget)))
	}
	if n := s.WatchStats().PendingBytes; n > budget {
		t.Errorf("%d bytes wait, the budget is %d", n, budget)
	}
	expectRevisions(t, st, first, s.Revision(), 1)
}
