package paging

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// within returns a context that ends with the test, or after the test's timeout.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// pass advances the fake time of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// replica is one process's view of a database.
type replica struct {
	*store.Store
	backend backend.Backend
	pager   *Pager
	dsn     string                       // of Postgres
	reopen  func(tb testing.TB) *replica // closes this one and opens the same database again
}

func (r *replica) close(tb testing.TB) {
	tb.Helper()
	if err := r.Close(); err != nil {
		tb.Error(err)
	}
	if err := r.backend.Close(); err != nil {
		tb.Error(err)
	}
}

// start runs a store over the backend that open returns.
func start(tb testing.TB, cfg store.Config, open func() (backend.Backend, error)) *replica {
	tb.Helper()
	b, err := open()
	if err != nil {
		tb.Fatal(err)
	}
	s, err := store.Open(tb.Context(), b, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := &replica{Store: s, backend: b, pager: New(s, b)}
	r.reopen = func(tb testing.TB) *replica {
		tb.Helper()
		r.close(tb)
		return start(tb, cfg, open)
	}
	tb.Cleanup(func() { r.close(tb) }) // harmless a second time, after a reopen
	return r
}

func onSQLite(tb testing.TB, cfg store.Config) *replica {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "db")
	return start(tb, cfg, func() (backend.Backend, error) {
		b, err := sqlite.Open(context.Background(), sqlite.Config{
			Path: path, UnsafeNoFsync: true,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		return b, nil
	})
}

// onPostgres starts n replicas over one empty database.
func onPostgres(tb testing.TB, n int, cfg store.Config) (all []*replica) {
	tb.Helper()
	dsn := pgserver.Database(tb)
	for range n {
		r := start(tb, cfg, func() (backend.Backend, error) {
			b, err := postgres.Open(context.Background(), postgres.Config{
				DSN: dsn, MaxConns: 6,
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				return nil, err
			}
			return b, nil
		})
		r.dsn = dsn
		all = append(all, r)
	}
	return all
}

// onEach runs f over one store on SQLite, with the index and without, and over replicas on Postgres.
func onEach(t *testing.T, f func(t *testing.T, all []*replica)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, []*replica{onSQLite(t, store.Config{})}) })
	t.Run("sqlite without index", func(t *testing.T) {
		f(t, []*replica{onSQLite(t, store.Config{DisableIndex: true})})
	})
	t.Run("postgres", func(t *testing.T) { f(t, onPostgres(t, 2, store.Config{})) })
}

func put(tb testing.TB, r *replica, key, value string) int64 {
	tb.Helper()
	res, err := r.Put(within(tb), &store.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		tb.Fatal(err)
	}
	return res.Revision
}

func compact(tb testing.TB, r *replica, revision int64) {
	tb.Helper()
	if _, err := r.Compact(within(tb), revision, false); err != nil {
		tb.Fatal(err)
	}
}

// onePage reads one page.
func onePage(tb testing.TB, r *replica, prefix string, o ListOptions) ([]*store.Row, Page, error) {
	tb.Helper()
	var rows []*store.Row
	page, err := r.pager.List(within(tb), []byte(prefix), o, func(chunk []*store.Row) error {
		rows = append(rows, chunk...)
		return nil
	})
	return rows, page, err
}

// mustList is onePage for a list that must succeed.
func mustList(tb testing.TB, r *replica, prefix string, o ListOptions) ([]*store.Row, Page) {
	tb.Helper()
	rows, page, err := onePage(tb, r, prefix, o)
	if err != nil {
		tb.Fatalf("list %q, %+v: %v", prefix, o, err)
	}
	return rows, page
}

func keysOf(rows []*store.Row) (keys []string) {
	for _, r := range rows {
		keys = append(keys, string(r.Key))
	}
	return keys
}
