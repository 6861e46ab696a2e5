package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// rows is a source in memory.
type rows struct {
	contents backend.Contents
	all      []backend.Row
	fail     int // after so many rows, if it is not 0
}

var errCut = errors.New("the source is gone")

func (r *rows) Contents() *backend.Contents { return &r.contents }
func (r *rows) Close() error                { return nil }

func (r *rows) Rows(_ context.Context, f func(*backend.Row) error) error {
	for i, row := range r.all {
		if r.fail > 0 && i == r.fail {
			return errCut
		}
		if err := f(&row); err != nil {
			return err
		}
	}
	return nil
}

// history returns a random source with n revisions, compacted at compacted.
func history(seed uint64, n int, compacted int64) *rows {
	rnd := rand.New(rand.NewPCG(seed, 0))
	live := map[string]*backend.Row{}
	r := &rows{}
	for rev := int64(2); rev < int64(n)+2; rev++ {
		for ordinal := range int32(1 + rnd.IntN(3)) {
			key := fmt.Sprintf("k/%d", 3*rnd.IntN(50)+int(ordinal))
			before, exists := live[key]
			row := backend.Row{Key: []byte(key), ModRevision: rev, Ordinal: ordinal, WrittenAt: 1e12 + rev/3}
			switch {
			case exists && rnd.IntN(4) == 0:
				row.Deleted = true
				delete(live, key)
			case exists:
				row.CreateRevision, row.Version = before.CreateRevision, before.Version+1
			default:
				row.CreateRevision, row.Version = rev, 1
			}
			if !row.Deleted {
				row.Value, row.Lease = fmt.Appendf(nil, "%d", rnd.Int()), int64(rnd.IntN(3))
				live[key] = &row
			}
			r.all = append(r.all, row)
		}
	}
	survivors := transfer.NewSurvivors(compacted)
	for i := range r.all {
		if r.all[i].ModRevision <= compacted {
			survivors.See(&r.all[i])
		}
	}
	r.all = slices.DeleteFunc(r.all, func(row backend.Row) bool { return !survivors.Has(&row) })
	r.contents = backend.Contents{
		Revision: int64(n) + 1, Compacted: compacted, ClusterID: 99, Dated: true,
		Leases: []backend.Lease{{ID: 1, TTL: time.Minute}, {ID: 2, TTL: time.Hour}},
		Auth: &backend.Auth{
			Revision: 7,
			Users: []backend.AuthUser{
				{Name: "root", Hash: []byte("$2a$04$x"), Roles: []string{"root"}, TokensFrom: 7},
			},
			Roles: []backend.AuthRole{{Name: "root"}},
		},
	}
	return r
}

// onEvery runs a test over an empty database of each kind, which reopen closes and opens again.
func onEvery(t *testing.T, test func(t *testing.T, reopen func() backend.Backend)) {
	t.Helper()
	open := func(t *testing.T, open func(context.Context) (backend.Backend, error)) func() backend.Backend {
		var b backend.Backend
		t.Cleanup(func() { _ = b.Close() })
		return func() backend.Backend {
			if b != nil {
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if b, err = open(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "db")
		test(t, open(t, func(ctx context.Context) (backend.Backend, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: path, UnsafeNoFsync: true})
		}))
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := pgserver.Database(t)
		test(t, open(t, func(ctx context.Context) (backend.Backend, error) {
			return postgres.Open(ctx, postgres.Config{DSN: dsn})
		}))
	})
}

// hashOf asks the engine for the hash of everything in the database.
func hashOf(t *testing.T, b backend.Backend) uint32 {
	t.Helper()
	s, err := store.Open(t.Context(), b, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.Export(auth.With(t.Context(), auth.Server))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	h, err := snapshot.HashKV(t.Context(), x, x.Revision)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// An import that is interrupted continues where it ended. Until it is finished, no store opens the database, and it
// continues only from the same source. The result has the source's rows, and HashKV equals that of the engine.
func TestLoadContinues(t *testing.T) {
	onEvery(t, func(t *testing.T, reopen func() backend.Backend) {
		src := history(1, 2000, 100)
		src.fail = len(src.all) * 2 / 3
		b := reopen()
		// A batch is handed over only when the one before it is committed.
		cut := transfer.Options{Mark: 5}.Batches(src.fail / 10)
		if _, err := transfer.Load(t.Context(), b, src, cut); !errors.Is(err, errCut) {
			t.Fatalf("a source that fails: %v", err)
		}
		clock, err := b.Clock(t.Context())
		if err != nil || clock.Revision < 100 {
			t.Fatalf("clock %+v, %v after an interrupted import", clock, err)
		}
		b = reopen()
		if s, err := store.Open(t.Context(), b, store.Config{}); !errors.Is(err, backend.ErrImporting) {
			t.Errorf("a store over half an import: %v, %v", s, err)
		}
		_, err = transfer.Load(t.Context(), b, src, transfer.Options{Mark: 6})
		if !errors.Is(err, transfer.ErrOtherImport) {
			t.Errorf("another source: %v", err)
		}
		src.fail = 0
		done, err := transfer.Load(t.Context(), b, src, transfer.Options{Mark: 5, KeepClusterID: true})
		if err != nil {
			t.Fatal(err)
		}
		if done.Rows != int64(len(src.all)) || done.Written == 0 || done.Written >= done.Rows ||
			done.Revision != 2001 {
			t.Errorf("%+v of %d rows", done, len(src.all))
		}
		b = reopen()
		checkLoaded(t, b, src)
		if h := hashOf(t, b); h != done.Hash {
			t.Errorf("hash %d, the engine says %d", done.Hash, h)
		}
		_, err = transfer.Load(t.Context(), reopen(), src, transfer.Options{Mark: 5})
		if !errors.Is(err, transfer.ErrNotEmpty) {
			t.Errorf("an import into what was imported: %v", err)
		}
	})
}

// A target that could not hold enough revisions above the source's is refused, and stays as it is.
func TestLoadRefusesHighRevisions(t *testing.T) {
	onEvery(t, func(t *testing.T, reopen func() backend.Backend) {
		b := reopen()
		settings, err := b.Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		src := history(1, 3, 0)
		src.contents.Revision = settings.Liftable() + 1
		_, err = transfer.Load(t.Context(), b, src, transfer.Options{Mark: 5})
		if !errors.Is(err, backend.ErrRevisionTooHigh) {
			t.Errorf("a source at revision %d: %v", src.contents.Revision, err)
		}
		if state, err := b.Import(t.Context()); err != nil || state.Source != 0 {
			t.Errorf("the target is marked: %+v, %v", state, err)
		}
	})
}

// checkLoaded compares what the database has with the source, and follows the links between versions.
func checkLoaded(t *testing.T, b backend.Backend, src *rows) {
	t.Helper()
	h, err := b.History(t.Context(), backend.HistoryQuery{
		Span: backend.Span{End: []byte{}}, Limit: 100_000, WithPrev: true,
	})
	if err != nil || len(h.Changes) != len(src.all) {
		t.Fatalf("%d rows, %v; want %d", len(h.Changes), err, len(src.all))
	}
	for i, c := range h.Changes {
		got, want := c.Row, src.all[i]
		if above := want.ModRevision > src.contents.Compacted; above && (got.PrevRevision != 0) != (c.Prev != nil) ||
			!got.Deleted && (got.Version == 1) != (got.PrevRevision == 0) {
			t.Fatalf("row %+v supersedes %+v", got, c.Prev)
		}
		got.PrevRevision = 0
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("row %+v, want %+v", got, want)
		}
	}
	clock, err := b.Clock(t.Context())
	if err != nil || clock.Revision != src.contents.Revision || clock.Compacted != src.contents.Compacted {
		t.Errorf("clock %+v, %v", clock, err)
	}
	settings, err := b.Settings(t.Context())
	if err != nil || settings.ClusterID != src.contents.ClusterID {
		t.Errorf("settings %+v, %v", settings, err)
	}
	leases, err := b.Leases(t.Context())
	if err != nil || !slices.Equal(leases, src.contents.Leases) {
		t.Errorf("leases %+v, %v", leases, err)
	}
	got, err := b.Auth(t.Context())
	if err != nil || got.Revision != 7 || len(got.Users) != 1 || got.Users[0].Name != "root" {
		t.Errorf("users %+v, %v", got, err)
	}
}

// Hashes at every compacted revision of many small histories equal the engine's, which etcd's own suites compare with
// etcd.
func TestLoadedHash(t *testing.T) {
	for seed := range uint64(30) {
		n := 1 + int(seed)
		src := history(seed, n, max(0, int64(seed*7)%int64(n+2)))
		b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true})
		if err != nil {
			t.Fatal(err)
		}
		done, err := transfer.Load(t.Context(), b, src, transfer.Options{Mark: 1})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if h := hashOf(t, b); h != done.Hash {
			t.Errorf("seed %d, %d revisions, compacted at %d: hash %d, the engine says %d", seed, n,
				src.contents.Compacted, done.Hash, h)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A source that contradicts itself is refused, and the database stays marked.
func TestLoadRefusesDamage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rows)
		want   string
	}{
		"a missing row":      {func(r *rows) { r.all = slices.Delete(r.all, 40, 41) }, "missing"},
		"a missing revision": {dropRevision, "revisions 30 to 30 have no rows"},
		"a repeated row":     {func(r *rows) { r.all = slices.Insert(r.all, 40, r.all[40]) }, "out of order"},
		"a wrong version":    {changeUpdate(func(row *backend.Row) { row.Version++ }), "version"},
		"a wrong creation":   {changeUpdate(func(row *backend.Row) { row.CreateRevision-- }), "created at revision"},
		"rows above the end": {func(r *rows) { r.contents.Revision-- }, "above its revision"},
	} {
		src := history(3, 60, 0)
		c.change(src)
		b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = transfer.Load(t.Context(), b, src, transfer.Options{Mark: 1})
		if !errors.Is(err, backend.ErrDamagedSource) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if i, err := b.Import(t.Context()); err != nil || i.Source != 1 {
			t.Errorf("%s: import %+v, %v", name, i, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func dropRevision(r *rows) {
	r.all = slices.DeleteFunc(r.all, func(row backend.Row) bool { return row.ModRevision == 30 })
}

// changeUpdate changes the last update of a key.
func changeUpdate(change func(*backend.Row)) func(*rows) {
	return func(r *rows) {
		for i := len(r.all) - 1; ; i-- {
			if row := &r.all[i]; row.Version > 1 {
				change(row)
				return
			}
		}
	}
}

// Revisions without rows stay without rows, if the source has them, and the check of the database knows.
func TestLoadGaps(t *testing.T) {
	for _, gaps := range []bool{false, true} {
		src := &rows{contents: backend.Contents{Revision: 40, Gaps: gaps}}
		for _, rev := range []int64{3, 10, 11, 30} {
			src.all = append(src.all, backend.Row{
				Key: fmt.Appendf(nil, "%d", rev), Value: []byte("v"), ModRevision: rev, CreateRevision: rev, Version: 1,
			})
		}
		path := filepath.Join(t.TempDir(), "db")
		b, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		_, err = transfer.Load(t.Context(), b, src, transfer.Options{Mark: 1})
		if gaps != (err == nil) {
			t.Errorf("gaps %v: %v", gaps, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if !gaps {
			continue
		}
		v, err := sqlite.OpenView(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		i := &backend.Inspection{}
		if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil || i.Found != 0 || i.Rows != 4 {
			t.Errorf("%v; %d rows, problems %q", err, i.Rows, i.Problems)
		}
	}
}
