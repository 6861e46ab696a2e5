package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// Every revision between the full backup and the last changes can be restored, whatever was compacted and purged in
// between, across restarts of the server, and from a bucket on another machine.
func TestEveryRevision(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, openDB opener) {
		r := directory(t)
		at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		w := newWorld(t, openDB, 7)
		w.change(100)
		if _, err := w.Compact(t.Context(), w.Revision()-20, false); err != nil {
			t.Fatal(err)
		}
		first := w.Compacted()
		c := w.full(r, at)
		for round := range 6 {
			w.change(40)
			at = at.Add(time.Second)
			name := w.changes(r, c, at)
			if name.Revision != w.Revision() || c.through != w.Revision() {
				t.Fatalf("%s at revision %d", name, w.Revision())
			}
			switch round {
			case 2: // what is not saved yet is compacted, and stays
				w.change(30)
				if _, err := w.Compact(t.Context(), w.Revision()-1, false); err != nil {
					t.Fatal(err)
				}
				for {
					p, err := w.PurgeStep(t.Context(), 1000)
					if err != nil {
						t.Fatal(err)
					}
					if p.Done || p.Examined == 0 {
						break
					}
				}
			case 4: // a restart
				c.close()
				w.close()
				w.open(openDB)
				x := w.export()
				var err error
				if c, err = r.resume(t.Context(), x); err != nil || c == nil || c.through != w.Revision() {
					t.Fatalf("%+v, %v", c, err)
				}
				x.Close()
			}
		}
		last := w.Revision()
		c.close()
		for revision := first; revision <= last; revision++ {
			s := open(t, r, Point{Revision: revision, Keep: true})
			if got, want := stateOf(t, s), w.states[revision]; !maps.Equal(got, want) {
				t.Fatalf("revision %d: %v, want %v", revision, got, want)
			}
			if c := s.Contents(); c.Revision != revision || c.Gaps {
				t.Errorf("revision %d: %+v", revision, c)
			}
		}
		far := open(t, remote(r), Point{})
		if got := stateOf(t, far); !maps.Equal(got, w.now) {
			t.Errorf("downloaded: %v, want %v", got, w.now)
		}
		w.checkRestored(open(t, r, Point{}), last+Bump)
		w.close()
		if _, err := r.Open(t.Context(), Point{Revision: last + 1}, ""); !errors.Is(err, ErrNone) {
			t.Errorf("a revision that was not saved: %v", err)
		}
	})
}

// checkRestored loads a source into an empty database, and compares what a store then serves.
func (w *world) checkRestored(s *Source, revision int64) {
	w.t.Helper()
	t := w.t
	b := opened(t)(sqlite.Open(t.Context(), sqlite.Config{Path: t.TempDir() + "/db", UnsafeNoFsync: true}))
	if _, err := transfer.Load(t.Context(), b, s, transfer.Options{Mark: 1}); err != nil {
		t.Fatal(err)
	}
	restored, err := store.Open(t.Context(), b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if restored.Revision() != revision || restored.Compacted() != revision {
		t.Errorf("restored at %d, compacted %d, want %d", restored.Revision(), restored.Compacted(), revision)
	}
	got := map[string]string{}
	res, err := restored.Range(t.Context(), &store.RangeRequest{Key: []byte("k/"), End: []byte("k0")})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range res.Rows {
		got[string(row.Key)] = string(row.Value)
	}
	if !maps.Equal(got, w.now) {
		t.Errorf("restored %v, want %v", got, w.now)
	}
	leases, err := restored.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, l := range leases {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	want := slices.Sorted(slices.Values(w.leases))
	if !slices.Equal(ids, want) {
		t.Errorf("leases %v, want %v", ids, want)
	}
	if put, err := restored.Put(t.Context(), &store.PutRequest{Key: []byte("new")}); err != nil ||
		put.Revision != revision+1 {
		t.Errorf("a write after the restore: %+v, %v", put, err)
	}
	if err := errors.Join(restored.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
}

// A time is restored exactly: the newest revision that was committed at or before it.
func TestToTime(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 3)
	at := time.Now().Add(-time.Hour)
	c := w.full(r, milliseconds(at))
	for range 5 {
		w.change(20)
		w.changes(r, c, milliseconds(time.Now().Add(time.Second)))
	}
	c.close()
	for revision := range w.states {
		if revision == 1 {
			continue
		}
		commit, _, err := w.WrittenAt(t.Context(), revision)
		if err != nil {
			t.Fatal(err)
		}
		current, _, err := w.CurrentAt(t.Context(), commit.At)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, r, Point{Time: commit.At, Keep: true})
		if at, written := s.At(); at != current.Revision || !written.Equal(commit.At) {
			t.Errorf("at %v: revision %d, written at %v, want %d", commit.At, at, written, current.Revision)
		}
		if got := stateOf(t, s); !maps.Equal(got, w.states[current.Revision]) {
			t.Errorf("at %v: %v", commit.At, got)
		}
	}
	w.close()
	for _, outside := range []time.Time{at.Add(-time.Second), time.Now().Add(time.Hour)} {
		if _, err := r.Open(t.Context(), Point{Time: outside}, ""); !errors.Is(err, ErrNone) {
			t.Errorf("at %v: %v", outside, err)
		}
	}
}

// A time is restored exactly even if the clock of the server, which times the files, is far ahead of the database's.
func TestServersClockAhead(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 21)
	c := w.full(r, milliseconds(time.Now().Add(-time.Hour)))
	var times []time.Time
	for i := range 4 {
		w.change(10)
		_, at := w.put("last", 0)
		times = append(times, at)
		w.tick()
		w.changes(r, c, milliseconds(time.Now().Add(time.Hour+time.Duration(i)*time.Second)))
	}
	c.close()
	for _, at := range times {
		current, _, err := w.CurrentAt(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []*Repository{r, remote(r)} {
			s := open(t, from, Point{Time: at})
			if got, _ := s.At(); got != current.Revision {
				t.Errorf("at %v: revision %d, want %d", at, got, current.Revision)
			}
		}
	}
	w.close()
}

// What an encrypted backup holds needs one of its keys; whether it is whole does not.
func TestEncrypted(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	r := directory(t)
	r.Recipients = []age.Recipient{other.Recipient(), key.Recipient()}
	w := newWorld(t, onSQLite(t), 5)
	w.change(30)
	c := w.full(r, time.Now())
	w.change(30)
	w.changes(r, c, time.Now())
	c.close()
	if _, err := r.Open(t.Context(), Point{}, ""); !errors.Is(err, ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	r.Identities = []age.Identity{stranger}
	if _, err := r.Open(t.Context(), Point{}, ""); !errors.Is(err, ErrKey) {
		t.Errorf("with another key: %v", err)
	}
	r.Identities = nil
	v := verify(t, r)
	if v.Decoded || len(v.Problems) > 0 || v.Through != w.Revision() {
		t.Errorf("verified without a key: %+v", v)
	}
	r.Identities = []age.Identity{key}
	if v := verify(t, r); !v.Decoded || len(v.Problems) > 0 {
		t.Errorf("verified: %+v", v)
	}
	if got := stateOf(t, open(t, r, Point{})); !maps.Equal(got, w.now) {
		t.Errorf("decrypted: %v", got)
	}
	w.close()
}

// verify verifies the only chain.
func verify(t *testing.T, r *Repository) *Verification {
	t.Helper()
	all, err := r.Chains(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d chains, %v", len(all), err)
	}
	v, err := r.Verify(t.Context(), &all[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A chain goes on only where the store continues what it holds.
func TestOtherHistory(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 9)
	w.change(20)
	c := w.full(r, time.Now())
	w.change(20)
	w.changes(r, c, time.Now())
	c.close()
	id := w.Settings().ClusterID
	w.close()
	resume := func(w *world) error {
		x := w.export()
		defer x.Close()
		x.Settings.ClusterID = id
		c, err := r.resume(t.Context(), x)
		if err == nil && c == nil {
			err = errors.New("no chain")
		}
		return err
	}
	older := newWorld(t, onSQLite(t), 10)
	older.change(10)
	if err := resume(older); !errors.Is(err, errOtherHistory) {
		t.Errorf("an older state: %v", err)
	}
	older.change(100)
	for older.Revision() < 40 {
		older.change(1)
	}
	if err := resume(older); !errors.Is(err, errOtherHistory) {
		t.Errorf("another history that has got further: %v", err)
	}
	if _, err := older.Compact(t.Context(), older.Revision(), false); err != nil {
		t.Fatal(err)
	}
	if err := resume(older); !errors.Is(err, errOtherHistory) {
		t.Errorf("a store whose unsaved history is compacted: %v", err)
	}
	older.close()
}

// Chains are deleted once a later one covers everything that is to be kept, but those of other stores only on request.
func TestPrune(t *testing.T) {
	r := directory(t)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	stores := []*world{newWorld(t, onSQLite(t), 1), newWorld(t, onSQLite(t), 2)}
	for day := range 4 {
		for _, w := range stores {
			w.change(5)
			c := w.full(r, start.Add(time.Duration(day)*24*time.Hour))
			w.change(5)
			w.changes(r, c, start.Add(time.Duration(day)*24*time.Hour+time.Hour))
			c.close()
		}
	}
	left := func() (days []string) {
		all, err := r.Chains(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if len(c.Files) != 2 {
				t.Errorf("%d files in %s", len(c.Files), c.Name)
			}
			days = append(days, fmt.Sprint(c.Full().At.Day(), ofStore(c.Name, stores[0].Settings().ClusterID)))
		}
		slices.Sort(days)
		return days
	}
	mine := func(chain string) bool { return ofStore(chain, stores[0].Settings().ClusterID) }
	// The chain of day 2 is needed to restore what is after day 2, noon.
	if _, err := r.prune(t.Context(), start.Add(36*time.Hour), mine); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 false", "2 false", "2 true", "3 false", "3 true", "4 false", "4 true"}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	removed, err := r.Prune(t.Context(), start.Add(365*24*time.Hour))
	if err != nil || len(removed) != 5 {
		t.Errorf("%d removed, %v", len(removed), err)
	}
	if got, want := left(), []string{"4 false", "4 true"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, w := range stores {
		w.close()
	}
}

// A full backup can be made of any source.
func TestFullOfSource(t *testing.T) {
	r := directory(t)
	openDB := onSQLite(t)
	w := newWorld(t, openDB, 4)
	w.change(200)
	w.close()
	src, err := transfer.OpenDatabase(t.Context(), openDB(t))
	if err != nil {
		t.Fatal(err)
	}
	name, footer, err := r.Full(t.Context(), src, "test", time.Now())
	if err := errors.Join(err, src.Close()); err != nil {
		t.Fatal(err)
	}
	if footer.Rows == 0 || name.Revision != src.Contents().Revision {
		t.Errorf("%s: %+v", name, footer)
	}
	if got := stateOf(t, open(t, r, Point{})); !maps.Equal(got, w.now) {
		t.Errorf("restored %v, want %v", got, w.now)
	}
}

// undated is a source whose rows have no times, as those of etcd and kine.
type undated struct{ backend.Source }

func (u undated) Contents() *backend.Contents {
	c := *u.Source.Contents()
	c.Dated = false
	return &c
}

func (u undated) Rows(ctx context.Context, f func(*backend.Row) error) error {
	return u.Source.Rows(ctx, func(r *backend.Row) error {
		without := *r
		without.WrittenAt = 0
		return f(&without)
	})
}

// A full backup of a source without times, and what a server adds to it, get the time at which they are restored.
func TestFullWithoutTimes(t *testing.T) {
	onEvery(t, func(t *testing.T, openTarget opener) {
		r := directory(t)
		openDB := onSQLite(t)
		w := newWorld(t, openDB, 5)
		w.change(50)
		w.close()
		src, err := transfer.OpenDatabase(t.Context(), openDB(t))
		if err != nil {
			t.Fatal(err)
		}
		at := milliseconds(time.Now())
		_, _, err = r.Full(t.Context(), undated{src}, "test", at)
		if err := errors.Join(err, src.Close()); err != nil {
			t.Fatal(err)
		}
		before := Point{Time: at.Add(-time.Millisecond)}
		if _, err := r.Open(t.Context(), before, t.TempDir()); !errors.Is(err, ErrNone) {
			t.Errorf("a time before the backup, of which its rows may be newer: %v", err)
		}
		w.open(openDB)
		x := w.export()
		c, err := r.resume(t.Context(), x)
		x.Close()
		if err != nil || c == nil {
			t.Fatalf("%v, %v", c, err)
		}
		w.change(50)
		w.changes(r, c, milliseconds(time.Now()))
		c.close()
		w.close()

		restored := time.Now()
		b := openTarget(t)
		if _, err := transfer.Load(t.Context(), b, open(t, r, Point{}), transfer.Options{Mark: 1}); err != nil {
			t.Fatal(err)
		}
		h, err := b.History(t.Context(), backend.HistoryQuery{Limit: 1000})
		if err := errors.Join(err, b.Close()); err != nil || len(h.Changes) == 0 {
			t.Fatalf("%d rows, %v", len(h.Changes), err)
		}
		for _, change := range h.Changes {
			if at := time.UnixMilli(change.Row.WrittenAt); at.Before(restored.Add(-time.Minute)) {
				t.Fatalf("revision %d was written at %v, restored from %v on", change.Row.ModRevision, at, restored)
			}
		}
	})
}
