package store

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

// testTimeout is how long a test waits for something that must happen. A test that passes never waits that long.
const testTimeout = 30 * time.Second

// within returns a context that ends with the test or after testTimeout.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	tb.Cleanup(cancel)
	return ctx
}

func openSQLite(tb testing.TB) backend.Backend {
	tb.Helper()
	b, err := sqlite.Open(tb.Context(), sqlite.Config{Temporary: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// openStore starts an engine over b and stops it with the test.
func openStore(tb testing.TB, b backend.Backend, cfg Config) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), b, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// eachIndex runs f with and without the index.
func eachIndex(t *testing.T, f func(t *testing.T, cfg Config)) {
	t.Helper()
	t.Run("index", func(t *testing.T) { f(t, Config{}) })
	t.Run("no index", func(t *testing.T) { f(t, Config{DisableIndex: true}) })
}

func put(tb testing.TB, s *Store, key, value string) int64 {
	tb.Helper()
	res, err := s.Put(within(tb), &PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		tb.Fatal(err)
	}
	return res.Revision
}

func get(tb testing.TB, s *Store, key string, revision int64) *Row {
	tb.Helper()
	res, err := s.Range(within(tb), &RangeRequest{Key: []byte(key), Revision: revision})
	if err != nil {
		tb.Fatal(err)
	}
	if len(res.Rows) == 0 {
		return nil
	}
	return res.Rows[0]
}

// many writes keys 0 to n-1 with values of the given size in bytes, in transactions of the given number of puts.
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

// next returns the stream's next response.
func next(tb testing.TB, st *WatchStream) *WatchResponse {
	tb.Helper()
	r, err := st.Next(within(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// recorder receives all log records except those for debugging.
type recorder chan slog.Record

func (recorder) Enabled(_ context.Context, l slog.Level) bool    { return l >= slog.LevelInfo }
func (r recorder) Handle(_ context.Context, l slog.Record) error { r <- l; return nil }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler            { return r }
func (r recorder) WithGroup(string) slog.Handler                 { return r }

// replicaOf returns the replica that keeps s up to date. It panics if the database is not shared.
func replicaOf(s *Store) *replica { return s.peers.(*replica) }
