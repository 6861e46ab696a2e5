package store

import (
	"runtime"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// A progress request that lost history has overtaken is forgotten; the next one is answered.
func TestProgressAfterLostHistory(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for range 10 {
		put(t, s, "a", "")
	}
	st := s.NewWatchStream()
	t.Cleanup(st.Close)
	created(t, st, everything(0))
	st.RequestProgress() // and the consumer stands still
	clock := backend.Clock{Revision: 5, Epoch: 2}
	s.index.Reset(clock) // as replica.reset does
	s.hub.reset(clock, true)
	if r := next(t, st); !r.Canceled {
		t.Fatalf("got %+v", r)
	}
	created(t, st, everything(0))
	st.RequestProgress()
	if r := next(t, st); r.ID != -1 || r.Revision != 5 {
		t.Errorf("got %+v", r)
	}
}

// However many progress requests come while the database hangs, they cost one question, and are answered when it
// answers.
func TestProgressRequestsWhileTheDatabaseHangs(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	st := watchAll(t, s, 0)
	unlock := pgserver.LockTable(t, dsn, "clock")
	before := runtime.NumGoroutine()
	for range 5000 {
		st.RequestProgress()
	}
	if grown := runtime.NumGoroutine() - before; grown > 500 {
		t.Errorf("%d goroutines more", grown)
	}
	unlock()
	st.RequestProgress() // those before may have been given up
	if r := next(t, st); r.ID != -1 {
		t.Errorf("got %+v", r)
	}
}
