package backup

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// put writes a key with a lease, and returns the revision and when it was committed.
func (w *world) put(key string, lease int64) (int64, time.Time) {
	w.t.Helper()
	res, err := w.Put(w.t.Context(), &store.PutRequest{Key: []byte(key), Lease: lease})
	if err != nil {
		w.t.Fatal(err)
	}
	commit, _, err := w.WrittenAt(w.t.Context(), res.Revision)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Revision, commit.At
}

// tick writes until the database's clock has moved on.
func (w *world) tick() {
	w.t.Helper()
	_, first := w.put("tick", 0)
	for now := first; !now.After(first); {
		_, now = w.put("tick", 0)
	}
}

func (w *world) grant(ttl int64) int64 {
	w.t.Helper()
	l, err := w.LeaseGrant(w.t.Context(), 0, ttl)
	if err != nil {
		w.t.Fatal(err)
	}
	return l.ID
}

func (w *world) revoke(id int64) {
	w.t.Helper()
	if _, err := w.LeaseRevoke(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
}

// At a point within a file, a key has its lease, although that has ended at the end of the file; even if it began in
// the same file, so that no file has it. Users are those of the point, and not those of the files that follow.
func TestWithinFile(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 16)
	old := w.grant(600)
	w.put("old", old)
	c := w.full(r, milliseconds(time.Now().Add(-time.Minute)))
	brief := w.grant(700)
	w.put("brief", brief)
	w.tick()
	revision, at := w.put("point", 0)
	w.tick()
	w.revoke(old)
	w.revoke(brief)
	w.changes(r, c, milliseconds(time.Now().Add(time.Second)))
	ctx := auth.With(t.Context(), auth.Server)
	if _, err := w.ChangeAuth(ctx, auth.AddUser{Name: "late", NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	later := w.grant(800)
	w.put("later", later)
	w.changes(r, c, milliseconds(time.Now().Add(2*time.Minute)))
	c.close()
	for _, p := range []Point{{Revision: revision}, {Time: at}} {
		s := open(t, r, p)
		var ids []int64
		for _, l := range s.Contents().Leases {
			ids = append(ids, l.ID)
			if want := map[int64]time.Duration{old: 600 * time.Second, brief: unknownTTL}[l.ID]; l.TTL != want {
				t.Errorf("%+v: lease %d has the TTL %v, want %v", p, l.ID, l.TTL, want)
			}
		}
		if want := slices.Sorted(slices.Values([]int64{old, brief})); !slices.Equal(ids, want) {
			t.Errorf("%+v: leases %v, want %v", p, ids, want)
		}
		if s.Contents().Auth != nil {
			t.Errorf("%+v: %+v, of minutes later", p, s.Contents().Auth)
		}
	}
	s := open(t, r, Point{})
	if l := s.Contents().Leases; len(l) != 1 || l[0].ID != later || s.Contents().Auth == nil {
		t.Errorf("at the end: leases %v, users %v", l, s.Contents().Auth)
	}
	w.close()
}

// Users that change at the newest revision are in a file without rows. The revision names that state, too: a restore of
// the newest state that was killed goes on with it.
func TestUsersAtRevision(t *testing.T) {
	r := directory(t)
	w := newWorld(t, onSQLite(t), 24)
	c := w.full(r, milliseconds(time.Now()))
	revision, _ := w.put("last", 0)
	w.changes(r, c, milliseconds(time.Now()))
	server := auth.With(t.Context(), auth.Server)
	if _, err := w.ChangeAuth(server, auth.AddUser{Name: "u", NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	w.changes(r, c, milliseconds(time.Now().Add(time.Second)))
	for _, p := range []Point{{}, {Revision: revision}} {
		s := open(t, r, p)
		if at, _ := s.At(); at != revision || s.Contents().Auth == nil {
			t.Errorf("%+v: revision %d, users %v", p, at, s.Contents().Auth)
		}
	}
	c.close()
	w.close()
}

// Between two lists of all leases, a file has those of its keys. The next list adds the others, and what has ended.
func TestLeasesOfKeys(t *testing.T) {
	onEvery(t, func(t *testing.T, openDB opener) {
		r := directory(t)
		w := newWorld(t, openDB, 22)
		run := New(w, Config{Repository: r, Logger: slog.New(slog.DiscardHandler)})
		defer run.drop()
		old := w.grant(500)
		run.chain = w.full(r, milliseconds(time.Now()))
		save := func(want map[int64]time.Duration) {
			t.Helper()
			run.exported = time.Time{}
			if err := run.changes(auth.With(t.Context(), auth.Server)); err != nil {
				t.Fatal(err)
			}
			got := map[int64]time.Duration{}
			for _, l := range open(t, r, Point{}).Contents().Leases {
				got[l.ID] = l.TTL / time.Second
			}
			if !maps.Equal(got, want) {
				t.Errorf("leases %v, want %v", got, want)
			}
		}
		used, unused := w.grant(600), w.grant(700)
		w.put("used", used)
		w.revoke(old)
		save(map[int64]time.Duration{old: 500, used: 600})
		w.put("used too", used)
		save(map[int64]time.Duration{old: 500, used: 600})
		run.chain.listed = time.Now().Add(-refresh)
		save(map[int64]time.Duration{used: 600, unused: 700})
		w.revoke(used)
		w.put("other", unused)
		save(map[int64]time.Duration{used: 600, unused: 700})
		run.drop()
		w.close()
	})
}

// A lease ends after the rows of a file are fixed, and before it is looked up. Its keys still expire.
func TestLeaseEndsMeanwhile(t *testing.T) {
	onEvery(t, func(t *testing.T, openDB opener) {
		r := directory(t)
		w := newWorld(t, openDB, 23)
		c := w.full(r, milliseconds(time.Now()))
		brief := w.grant(500)
		w.put("brief", brief)
		x, err := w.ExportRows(auth.With(t.Context(), auth.Server))
		if err != nil {
			t.Fatal(err)
		}
		w.revoke(brief)
		if _, _, err := r.changes(t.Context(), c, x, "test", milliseconds(time.Now())); err != nil {
			t.Fatal(err)
		}
		want := []backend.Lease{{ID: brief, TTL: unknownTTL}}
		if got := open(t, r, Point{}).Contents().Leases; !slices.Equal(got, want) {
			t.Errorf("leases %+v, want %+v", got, want)
		}
		w.changes(r, c, milliseconds(time.Now()))
		if got := open(t, r, Point{}).Contents().Leases; len(got) > 0 {
			t.Errorf("leases %+v after all of them were read", got)
		}
		c.close()
		w.close()
	})
}
