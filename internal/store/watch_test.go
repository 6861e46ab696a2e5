package store

import (
	"runtime"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// everything is a watch of all keys.
func everything(from int64) WatchRequest {
	return WatchRequest{Key: []byte{0}, End: []byte{0}, StartRevision: from}
}

// expectRevisions reads events until all revisions have arrived, each once and in order, with n events per revision.
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

// A transaction that changes one key twice is shown as in etcd: the superseded row is the one before the transaction,
// whether the events come from the hub or from the database.
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

// While the database hangs, any number of progress requests costs one query. They are answered when the database
// answers.
func TestProgressRequestsWhileTheDatabaseIsUnresponsive(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	st := watchAll(t, s, 0)
	unlock := pgserver.LockTable(t, dsn, "clock")
	before := runtime.NumGoroutine()
	for range 5000 {
		st.RequestProgress()
	}
	if grown := runtime.NumGoroutine() - before; grown > 500 {
		t.Errorf("%d more goroutines", grown)
	}
	unlock()
	st.RequestProgress() // the earlier requests may have been dropped
	if r := next(t, st); r.ID != -1 {
		t.Errorf("got %+v", r)
	}
}
