package sqlstore_test

import (
	"runtime"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// Tests start many temporary servers in one process; each must cost little while it is idle.
func TestTemporaryServerHasFewGoroutines(t *testing.T) {
	const servers, most = 5, 50
	before := runtime.NumGoroutine()
	for range servers {
		start(t, sqlstore.Config{})
	}
	if n := (runtime.NumGoroutine() - before) / servers; n > most {
		t.Errorf("%d goroutines a server and its client, want at most %d", n, most)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := sqlstore.Start(b.Context(), sqlstore.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
