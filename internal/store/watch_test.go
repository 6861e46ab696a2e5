package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// everything is a watch of all keys.
func everything(from int64) WatchRequest {
	return WatchRequest{Key: []byte{0}, End: []byte{0}, StartRevision: from}
}

// expectRevisions takes events until those of all revisions have come, each once and in order, n events a revision.
func expectRevisions(t *testing.T, st *WatchStream, first, last int64, n int) {
	t.Helper()
	for rev := first; rev <= last; {
		r := next(t, st)
		if len(r.Events) == 0 || len(r.Events)%n != 0 {
			t.Fatalf("waiting for revision %d: %+v", rev, r)
		}
		for part := range slices.Chunk(r.Events, n) {
			for _, e := range part {
				if e.Row.ModRevision != rev {
					t.Fatalf("revision %d came instead of %d", e.Row.ModRevision, rev)
				}
			}
			rev++
		}
	}
}

func created(t *testing.T, st *WatchStream, w WatchRequest) int64 {
	t.Helper()
	st.Watch(w)
	r := next(t, st)
	if !r.Created || r.Canceled {
		t.Fatalf("created as %+v", r)
	}
	return r.ID
}

func isSynced(st *WatchStream, id int64) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.watches[id].synced
}

// A slow watch is taken off, again and again, and comes back through the window and through the database.
func TestSlowWatchComesAgain(t *testing.T) {
	for name, window := range map[string]int64{"window": 1 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, openSQLite(t), Config{WindowBytes: window, WatcherBytes: 1000})
			st := s.NewWatchStream()
			defer st.Close()
			id := created(t, st, everything(0))
			rev := int64(2)
			for range 3 {
				first := rev
				for range 50 {
					txn := &Txn{}
					for _, k := range []string{"a", "b", "c"} {
						txn.Success = append(txn.Success, Op{Put: &PutRequest{Key: []byte(k), Value: make([]byte, 50)}})
					}
					if res, err := s.Txn(within(t), txn); err != nil || res.Revision != rev {
						t.Fatal(res, err)
					}
					rev++
				}
				if isSynced(st, id) || s.WatchStats().Slow != 1 {
					t.Fatal("it is not too slow")
				}
				st.mu.Lock()
				if waiting := st.watches[id].bytes; waiting > 2000 {
					t.Errorf("%d bytes wait for it", waiting)
				}
				st.mu.Unlock()
				expectRevisions(t, st, first, rev-1, 3)
				for ctx := within(t); !isSynced(st, id); {
					if ctx.Err() != nil {
						t.Fatal("it does not come back")
					}
				}
			}
		})
	}
}

func TestWatchFromTheFuture(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	st := s.NewWatchStream()
	defer st.Close()
	created(t, st, everything(4))
	st.RequestProgress() // nobody answers while it waits for the future
	put(t, s, "a", "2")
	put(t, s, "a", "3")
	put(t, s, "a", "4")
	put(t, s, "a", "5")
	expectRevisions(t, st, 4, 5, 1)
}

// A database that does not answer delays a watch that catches up, and nothing else.
func TestCatchUpIsTriedAgain(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	failed := make(chan struct{})
	fails := 1
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		if fails > 0 {
			fails--
			close(failed)
			return fmt.Errorf("not now: %w", backend.ErrUnavailable)
		}
		return nil
	}
	s := openStore(t, f, Config{WindowBytes: 1})
	for i := range 3 {
		put(t, s, "a", fmt.Sprint(i))
	}
	st := s.NewWatchStream()
	defer st.Close()
	created(t, st, everything(2))
	<-failed
	put(t, s, "a", "meanwhile")
	expectRevisions(t, st, 2, 5, 1)
}

// A compaction overtakes a watch that is reading from the database.
func TestCompactionEndsAWatchThatCatchesUp(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	reading, release := make(chan struct{}), make(chan struct{})
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		select {
		case <-reading:
		default:
			close(reading)
			<-release
		}
		return nil
	}
	s := openStore(t, f, Config{WindowBytes: 1})
	for i := range 5 {
		put(t, s, "a", fmt.Sprint(i))
	}
	st := s.NewWatchStream()
	defer st.Close()
	id := created(t, st, everything(2))
	<-reading
	if _, err := s.Compact(within(t), 5, true); err != nil {
		t.Fatal(err)
	}
	close(release)
	if r := next(t, st); r.ID != id || !r.Canceled || r.CompactRevision != 5 || r.Revision != 0 {
		t.Fatalf("got %+v", r)
	}
	st.Cancel(id) // which is not there any more: no answer
	created(t, st, everything(5))
	expectRevisions(t, st, 5, 6, 1)
}

func TestWatchIDs(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	st := s.NewWatchStream()
	defer st.Close()
	w := everything(0)
	w.ID = 1
	if id := created(t, st, w); id != 1 {
		t.Errorf("asked for 1, got %d", id)
	}
	for _, want := range []int64{0, 2, 3} {
		if id := created(t, st, everything(0)); id != want {
			t.Errorf("got %d, not %d", id, want)
		}
	}
	st.Watch(w)
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, ErrWatchDuplicateID) {
		t.Errorf("a used id answers %+v", r)
	}
	st.Cancel(3)
	if r := next(t, st); r.ID != 3 || !r.Canceled {
		t.Errorf("got %+v", r)
	}
	if id := created(t, st, everything(0)); id != 4 {
		t.Errorf("ids went back to %d", id)
	}
	st.Watch(everything(-1))
	if r := next(t, st); r.ID != -1 || !errors.Is(r.Err, ErrCompacted) || !r.Created || !r.Canceled {
		t.Errorf("a negative start answers %+v", r)
	}
}

// Nothing of a watch comes out after the answer to its cancellation, though events were waiting.
func TestCancelDropsWhatWaits(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	st := s.NewWatchStream()
	defer st.Close()
	one, two := created(t, st, everything(0)), created(t, st, everything(0))
	put(t, s, "a", "")
	st.Cancel(one)
	if r := next(t, st); r.ID != one || !r.Canceled {
		t.Fatalf("got %+v", r)
	}
	if r := next(t, st); r.ID != two || len(r.Events) != 1 {
		t.Fatalf("got %+v", r)
	}
	put(t, s, "b", "")
	if r := next(t, st); r.ID != two || len(r.Events) != 1 {
		t.Fatalf("got %+v", r)
	}
}

func TestIdleWatchesAreToldOfProgress(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{ProgressInterval: 5 * time.Millisecond})
	st := s.NewWatchStream()
	defer st.Close()
	w := everything(0)
	w.ProgressNotify = true
	w.Key, w.End = []byte("quiet"), nil
	id := created(t, st, w)
	rev := put(t, s, "loud", "")
	for {
		r := next(t, st)
		if r.ID != id || len(r.Events) != 0 || r.Canceled {
			t.Fatalf("got %+v", r)
		}
		if r.Revision == rev {
			return
		}
	}
}

// What a transaction did to one key twice is shown as etcd shows it: superseded is what was there before the
// transaction, whether the events come from the hub or from the database.
func TestKeyChangedTwiceInOneRevision(t *testing.T) {
	for name, window := range map[string]int64{"window": 1 << 20, "database": 1} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, openSQLite(t), Config{WindowBytes: window})
			put(t, s, "a", "before")
			live := s.NewWatchStream()
			defer live.Close()
			w := everything(0)
			w.PrevKV = true
			created(t, live, w)
			_, err := s.Txn(within(t), &Txn{Success: []Op{
				{Put: &PutRequest{Key: []byte("a"), Value: []byte("inside")}},
				{Txn: &Txn{Success: []Op{{Delete: &DeleteRequest{Key: []byte("a")}}}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			replay := s.NewWatchStream()
			defer replay.Close()
			w.StartRevision = 3
			created(t, replay, w)
			for _, st := range []*WatchStream{live, replay} {
				r := next(t, st)
				if len(r.Events) != 2 || r.Events[0].Row.Deleted || !r.Events[1].Row.Deleted {
					t.Fatalf("got %+v", r)
				}
				for _, e := range r.Events {
					if e.Prev == nil || string(e.Prev.Value) != "before" {
						t.Errorf("superseded: %s", eventText(e))
					}
				}
			}
		})
	}
}
