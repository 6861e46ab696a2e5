package backup

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gocloud.dev/blob/fileblob"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// purge deletes what is compacted, as far as nobody keeps it.
func (w *world) purge() (done bool) {
	w.t.Helper()
	for {
		p, err := w.PurgeStep(w.t.Context(), 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if p.Done || p == (backend.PurgeResult{}) {
			return p.Done
		}
	}
}

func (w *world) compact() {
	w.t.Helper()
	if _, err := w.Compact(w.t.Context(), w.Revision(), false); err != nil {
		w.t.Fatal(err)
	}
}

// If the database has lost the pin that kept unsaved rows, the chain goes on if they are not compacted, and otherwise
// a new one begins.
func TestLostPin(t *testing.T) {
	dsn := pgserver.Database(t)
	r := directory(t)
	w := newWorld(t, func(t *testing.T) backend.Backend {
		t.Helper()
		return opened(t)(postgres.Open(t.Context(), postgres.Config{DSN: dsn}))
	}, 13)
	w.change(20)
	c := w.full(r, milliseconds(time.Now()))
	defer c.close()
	lose := func() {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			_, err = conn.Exec(t.Context(), "DELETE FROM holds")
			err = errors.Join(err, conn.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.compact() // at what is saved
	w.change(20)
	lose()
	w.changes(r, c, milliseconds(time.Now()))
	if got := stateOf(t, open(t, r, Point{})); !maps.Equal(got, w.now) {
		t.Errorf("restored %v, want %v", got, w.now)
	}
	w.change(20)
	w.compact()
	lose()
	x := w.export()
	defer x.Close()
	if _, _, err := r.changes(t.Context(), c, x, "test", time.Now()); !errors.Is(err, errOtherHistory) {
		t.Errorf("rows that may have been deleted: %v", err)
	}
	w.close()
}

// A bucket that is away does not keep a store from deleting what is compacted for ever.
func TestHoldEnds(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 14)
	w.change(20)
	run := New(w, Config{Repository: r, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	run.chain = w.full(r, milliseconds(time.Now()))
	defer run.drop()
	working := r.Bucket
	away, err := fileblob.OpenBucket(t.TempDir(), nil)
	if err == nil {
		err = away.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	fail := func() {
		t.Helper()
		r.Bucket, r.Dir = away, ""
		if err := run.changes(t.Context()); err == nil {
			t.Error("a bucket that is closed takes changes")
		}
		r.Bucket = working
	}
	w.change(20)
	fail()
	w.compact()
	if w.purge() {
		t.Error("what is not saved is deleted")
	}
	run.chain.since = time.Now().Add(-holdLimit)
	fail()
	if !w.purge() {
		t.Error("what is compacted is kept, however long the bucket is away")
	}
	if err := run.changes(t.Context()); !errors.Is(err, errOtherHistory) {
		t.Errorf("the chain goes on without what is deleted: %v", err)
	}
	w.close()
}

// A chain whose full backup was deleted does not go on: nothing could be restored from it.
func TestFullDisappears(t *testing.T) {
	for _, far := range []bool{false, true} {
		r := directory(t)
		w := newWorld(t, onSQLite(t), 15)
		run := New(w, Config{Repository: r, Version: "test", Logger: slog.New(slog.DiscardHandler)})
		run.chain = w.full(r, milliseconds(time.Now()))
		path := filepath.Join(r.Dir, filepath.FromSlash(run.chain.full.String()))
		if far {
			run.cfg.Repository = remote(r)
		}
		w.change(5)
		run.chain.seen = time.Now().Add(-refresh)
		if err := run.changes(t.Context()); err != nil || time.Since(run.chain.seen) > refresh {
			t.Errorf("a chain whose full backup is there does not go on: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		run.chain.seen = time.Now().Add(-refresh)
		if err := run.changes(t.Context()); !errors.Is(err, errOtherHistory) {
			t.Errorf("a chain without its full backup goes on: %v", err)
		}
		run.drop()
		w.close()
	}
}
