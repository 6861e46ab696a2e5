package watch

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// stalled opens a stream with watches of all keys from revision 2. Its client receives the answers to its requests and
// nothing else.
func stalled(t *testing.T, m *memory, watches int) *Stream {
	t.Helper()
	st := newStream(t, m)
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

// A slow watch keeps only its own events in memory, not the rest of their batches.
func TestSlowWatchHoldsItsOwnEventsOnly(t *testing.T) {
	m := open(t, Config{WindowBytes: 1})
	st := newStream(t, m)
	created(t, st, Request{Key: []byte("k000000")}) // from here on the client receives nothing
	var others []weak.Pointer[index.Item]
	st2 := m.NewStream()
	created(t, st2, everything(0))
	m.many(8, 8, 100)
	st2.mu.Lock()
	for _, w := range st2.watches {
		for _, e := range w.pending[1:] {
			others = append(others, weak.Make(e.item))
		}
	}
	st2.mu.Unlock()
	st2.Close()
	m.many(8, 1, 100) // pushes the first events out of the window
	if len(others) != 7 {
		t.Fatalf("%d other events", len(others))
	}
	runtime.GC()
	for i, o := range others {
		if o.Value() != nil {
			t.Errorf("event %d is still in memory", i+1)
		}
	}
	if n := m.Stats().Pending; n != 2 {
		t.Errorf("%d events wait, want 2", n)
	}
}

// A watch does not retain the capacity that it needed to stage a large transaction.
func TestLargeTransactionRetainsNoCapacity(t *testing.T) {
	m := open(t, Config{})
	st := newStream(t, m)
	id := created(t, st, everything(0))
	m.many(20*stagedCapacity, 20*stagedCapacity, 1)
	expectRevisions(t, st, 2, 2, 20*stagedCapacity)
	m.Hub.mu.Lock()
	defer m.Hub.mu.Unlock()
	if n := cap(st.watches[id].staged); n > stagedCapacity {
		t.Errorf("the watch retains capacity for %d events", n)
	}
	if n := m.pending.Load(); n != 0 {
		t.Errorf("%d bytes are counted, but nothing waits", n)
	}
}

// Superseded values that are not in memory are read for one response at a time.
func TestSupersededValuesFitResponses(t *testing.T) {
	const n, size = 40, responseBytes / 4
	m := open(t, Config{})
	m.cold = true
	m.many(n, 4, size) // each revision fills a response
	st := newStream(t, m)
	w := everything(0)
	w.PrevKV = true
	created(t, st, w)
	first := m.revision() + 1
	for i := 0; i < n; i += 2 {
		m.commit(backend.Row{Key: fmt.Appendf(nil, "k%06d", i), Deleted: true},
			backend.Row{Key: fmt.Appendf(nil, "k%06d", i+1), Deleted: true})
	}
	last := m.put("z", "")
	got := 0
	for rev := first; rev < last; {
		r, bytes := next(t, st), 0
		for _, e := range r.Events {
			if e.Row.ModRevision != rev && e.Row.ModRevision != rev+1 {
				t.Fatalf("revision %d comes after %d", e.Row.ModRevision, rev)
			}
			rev = e.Row.ModRevision
			if got++; e.Row.Deleted != (e.Prev != nil && len(e.Prev.Value) == size) {
				t.Fatalf("revision %d: %s superseded %+v", rev, e.Row.Key, e.Prev)
			}
			if e.Prev != nil {
				bytes += len(e.Prev.Value)
			}
		}
		if r.Revision != rev {
			t.Errorf("the response ends with revision %d but reports %d", rev, r.Revision)
		}
		if bytes > 2*responseBytes {
			t.Errorf("a response has %d bytes", bytes)
		}
	}
	if got != n+1 {
		t.Errorf("%d events, want %d", got, n+1)
	}
}

// Clients that start thousands of watches of the past and read nothing use no more than the common budget. They do not
// hold up others, and they get everything that they missed if they read in the end.
func TestStalledWatchesShareABudget(t *testing.T) {
	const (
		objects, size    = 1000, 4 << 10
		streams, watches = 16, 64
		budget           = 1 << 20
	)
	for name, window := range map[string]int64{"window": 64 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			m := open(t, Config{WindowBytes: window, WatchBytes: budget})
			m.many(objects, 1, size)
			last := m.revision()
			most := int64(0)
			sample := func() { most = max(most, m.Stats().PendingBytes) }
			var idle []*Stream
			for range streams {
				idle = append(idle, stalled(t, m, watches))
				sample()
			}
			for range 4 { // one after the other, each behind all stalled watches
				good := m.NewStream()
				created(t, good, everything(2))
				expectRevisions(t, good, 2, last, 1)
				good.Close()
				sample()
			}
			last = m.put("now", "") // for synced watches
			sample()
			// In addition, each reader may hold the events of one response.
			if most > budget+catchUpReads*(chunkBytes+2*size) {
				t.Errorf("%d bytes were held, the budget is %d", most, budget)
			}
			id := map[int64]int64{} // the last revision of each watch
			for done := 0; done < watches; {
				r := next(t, idle[0])
				for _, e := range r.Events {
					if want := max(id[r.ID], 1) + 1; e.Row.ModRevision != want {
						t.Fatalf("watch %d gets revision %d, want %d", r.ID, e.Row.ModRevision, want)
					}
					id[r.ID] = e.Row.ModRevision
				}
				if id[r.ID] == last {
					done++
				}
			}
			for _, st := range idle {
				st.Close()
			}
			if n := m.Stats().PendingBytes; n != 0 {
				t.Errorf("%d bytes are counted, but nothing waits", n)
			}
		})
	}
}

// A client that receives one progress notify and then nothing holds no more than any other client.
func TestBudgetBehindProgress(t *testing.T) {
	const budget = 1 << 10
	m := open(t, Config{WatchBytes: budget})
	st := newStream(t, m)
	created(t, st, everything(0))
	m.put("a", "")
	next(t, st)
	st.RequestProgress()
	if r := next(t, st); r.ID != -1 {
		t.Fatalf("got %+v", r)
	}
	first := m.revision() + 1
	for range 4 {
		m.put("a", string(make([]byte, budget)))
	}
	if n := m.Stats().PendingBytes; n > budget {
		t.Errorf("%d bytes wait, the budget is %d", n, budget)
	}
	expectRevisions(t, st, first, m.revision(), 1)
}
