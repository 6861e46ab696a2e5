package backup

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// While full backups fail, and nothing is saved between them, the state says why. What is saved is what was committed
// when an attempt began, and not when it ended.
func TestState(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 18)
	w.change(5)
	run := New(w, Config{
		Repository: r, FullInterval: time.Hour, Keep: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	defer run.drop()
	at := time.Now().Add(-time.Minute)
	dir := r.Dir
	r.Dir += "/none\x00"
	run.asked = true
	attempt := func() State {
		t.Helper()
		run.report(t.Context(), at, run.step(t.Context()))
		if run.full != nil {
			run.finished(t.Context(), <-run.full)
		}
		return run.State()
	}
	if s := attempt(); s.Err == nil || s.Failures != 1 || !s.Saved.IsZero() {
		t.Errorf("after a full backup that failed: %+v", s)
	}
	if s := attempt(); s.Err == nil || s.Failures != 1 || !s.Saved.IsZero() {
		t.Errorf("before the next one: %+v", s)
	}
	r.Dir, run.failed = dir, time.Time{}
	if s := attempt(); s.Err == nil || s.Fulls != 1 {
		t.Errorf("after a full backup: %+v", s)
	}
	if s := attempt(); s.Err != nil || !s.Saved.Equal(at) || s.Revision != w.Revision() {
		t.Errorf("after changes: %+v", s)
	}
	// A later full backup fails, while changes are saved.
	began := run.chain.began
	run.background.Wait() // for what deletes older backups
	r.Dir += "/none\x00"
	run.report(t.Context(), at, run.begin(t.Context()))
	run.finished(t.Context(), <-run.full)
	r.Dir = dir
	if s := attempt(); s.Err != nil || s.FullErr == nil || s.Fulls != 1 || !s.LastFull.Equal(began) {
		t.Errorf("after another full backup that failed: %+v", s)
	}
	run.report(t.Context(), at, run.begin(t.Context()))
	run.finished(t.Context(), <-run.full)
	if s := attempt(); s.FullErr != nil || s.Fulls != 2 || !s.LastFull.After(began) {
		t.Errorf("after a later full backup: %+v", s)
	}
	run.drop()
	run.background.Wait()
	w.close()
}

// busy commits after each export, before it is returned.
type busy struct {
	*world

	last time.Time
}

func (b *busy) Export(ctx context.Context) (*store.Export, error) {
	x, err := b.world.Export(ctx)
	b.commit()
	return x, err
}

func (b *busy) ExportRows(ctx context.Context) (*store.Export, error) {
	x, err := b.world.ExportRows(ctx)
	b.commit()
	return x, err
}

func (b *busy) commit() {
	b.tick()
	_, b.last = b.put("late", 0)
}

// No file claims a time at which something was committed that it does not have.
func TestTimeOfFiles(t *testing.T) {
	r := directory(t)
	b := &busy{world: newWorld(t, onSQLite(t), 19)}
	run := New(b, Config{Repository: r, Logger: slog.New(slog.DiscardHandler)})
	defer run.drop()
	ctx := auth.With(t.Context(), auth.Server)
	check := func() {
		t.Helper()
		all, err := r.Chains(ctx)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d chains, %v", len(all), err)
		}
		if at := all[0].Last().At; !at.Before(b.last) {
			t.Errorf("%s is of %v, and does not have what was committed at %v", all[0].Last(), at, b.last)
		}
	}
	if err := run.begin(ctx); err != nil {
		t.Fatal(err)
	}
	run.finished(ctx, <-run.full)
	check()
	if err := run.changes(ctx); err != nil {
		t.Fatal(err)
	}
	check()
	run.drop()
	run.background.Wait()
	b.close()
}
