package store

import (
	"runtime"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

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
