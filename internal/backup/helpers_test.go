package backup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"gocloud.dev/blob/fileblob"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// opener opens one database, again and again.
type opener func(t *testing.T) backend.Backend

// onEvery runs a test over an empty database of each kind.
func onEvery(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) {
		dsn := pgserver.Database(t)
		test(t, func(t *testing.T) backend.Backend {
			t.Helper()
			return opened(t)(postgres.Open(t.Context(), postgres.Config{DSN: dsn}))
		})
	})
}

func onSQLite(t *testing.T) opener {
	path := filepath.Join(t.TempDir(), "db")
	return func(t *testing.T) backend.Backend {
		t.Helper()
		return opened(t)(sqlite.Open(t.Context(), sqlite.Config{Path: path, UnsafeNoFsync: true}))
	}
}

func opened(t *testing.T) func(backend.Backend, error) backend.Backend {
	return func(b backend.Backend, err error) backend.Backend {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// directory is a repository in a new directory of this machine.
func directory(t *testing.T) *Repository {
	t.Helper()
	dir := t.TempDir()
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &Repository{Bucket: b, Dir: dir}
}

// remote is a repository that reads from its bucket only.
func remote(r *Repository) *Repository {
	c := *r
	c.Dir = ""
	return &c
}

// world is a store that changes at random, and what it held at each revision.
type world struct {
	*store.Store

	t      *testing.T
	b      backend.Backend
	rnd    *rand.Rand
	now    map[string]string
	states map[int64]map[string]string
	times  map[int64]time.Time
	leases []int64
}

func newWorld(t *testing.T, open opener, seed uint64) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: map[string]string{},
		states: map[int64]map[string]string{}, times: map[int64]time.Time{},
	}
	w.open(open)
	w.note(w.Revision())
	return w
}

func (w *world) open(open opener) {
	w.t.Helper()
	w.b = open(w.t)
	s, err := store.Open(w.t.Context(), w.b, store.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Store = s
}

func (w *world) close() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.b.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) note(revision int64) { w.states[revision] = maps.Clone(w.now) }

// change writes n times.
func (w *world) change(n int) {
	w.t.Helper()
	for range n {
		w.changeOnce()
	}
}

func (w *world) changeOnce() {
	key := fmt.Sprint("k/", w.rnd.IntN(30))
	switch w.rnd.IntN(12) {
	case 0:
		l, err := w.LeaseGrant(w.t.Context(), 0, 600)
		if err != nil {
			w.t.Fatal(err)
		}
		w.leases = append(w.leases, l.ID)
		return
	case 1, 2, 3:
		res, err := w.Delete(w.t.Context(), &store.DeleteRequest{Key: []byte(key)})
		if err != nil {
			w.t.Fatal(err)
		}
		delete(w.now, key)
		w.note(res.Revision)
		return
	}
	value := fmt.Sprint(w.rnd.Int(), key)
	put := &store.PutRequest{Key: []byte(key), Value: []byte(value)}
	if len(w.leases) > 0 && w.rnd.IntN(3) == 0 {
		put.Lease = w.leases[w.rnd.IntN(len(w.leases))]
	}
	res, err := w.Put(w.t.Context(), put)
	if err != nil {
		w.t.Fatal(err)
	}
	w.now[key] = value
	w.note(res.Revision)
}

func (w *world) export() *store.Export {
	w.t.Helper()
	x, err := w.Export(auth.With(w.t.Context(), auth.Server))
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// full writes a full backup.
func (w *world) full(r *Repository, at time.Time) *chain {
	w.t.Helper()
	run := New(w, Config{Repository: r, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	c, err := run.writeFull(w.t.Context(), w.export(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// changes writes changes.
func (w *world) changes(r *Repository, c *chain, at time.Time) Name {
	w.t.Helper()
	x := w.export()
	name, _, err := r.changes(w.t.Context(), c, x, "test", at)
	if err != nil {
		x.Close()
		w.t.Fatal(err)
	}
	return name
}

// stateOf returns the keys and values of a source at its revision.
func stateOf(t *testing.T, s *Source) map[string]string {
	t.Helper()
	state := map[string]string{}
	err := s.Rows(t.Context(), func(r *backend.Row) error {
		if r.Deleted {
			delete(state, string(r.Key))
		} else {
			state[string(r.Key)] = string(r.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func open(t *testing.T, r *Repository, p Point) *Source {
	t.Helper()
	s, err := r.Open(context.Background(), p, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
