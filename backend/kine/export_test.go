package kine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// put returns a row of a key's first version.
func put(revision int64, key string) backend.Row {
	return backend.Row{
		Key: []byte(key), Value: []byte("v"), ModRevision: revision, CreateRevision: revision, Version: 1,
	}
}

func rowsOf(rows ...backend.Row) func(context.Context, func(backend.Row) error) error {
	return func(_ context.Context, f func(backend.Row) error) error {
		for _, r := range rows {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// What kine cannot store is refused, and nothing is left of the export. So is a target that has something.
func TestExportRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	url := Prefix + "sqlite://" + path
	second := put(5, "/b")
	second.Ordinal = 1
	for want, rows := range map[string][]backend.Row{
		`revision 5 wrote "/a" and "/b"`:   {put(5, "/a"), second},
		"kine shows this key as compact_r": {put(5, storedCompactKey)},
	} {
		err := Export(t.Context(), url, &Store{Revision: 5, Rows: rowsOf(rows...)})
		if !errors.Is(err, ErrCannotStore) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	err := Export(t.Context(), url, &Store{Revision: 5, Rows: func(context.Context, func(backend.Row) error) error {
		return errStop
	}})
	if !errors.Is(err, errStop) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Export(t.Context(), url, &Store{Revision: 5, Rows: rowsOf()}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a log of another database: %v", err)
	}
}

// What is exported, and what is being exported, can be read by the owner only. The rest of an export that was killed is
// replaced.
func TestExportMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path+".partial", []byte("the rest"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode(); mode != 0o600 {
			t.Errorf("%s has the mode %v, want 0600", name, mode)
		}
	}
	err := Export(t.Context(), Prefix+"sqlite://"+path, &Store{
		Revision: 5, Rows: func(ctx context.Context, f func(backend.Row) error) error {
			check(path + ".partial")
			return rowsOf(put(5, "/a"))(ctx, f)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	check(path)
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Each database has its own limits of names.
func TestNames(t *testing.T) {
	for name, refused := range map[string][]dialect{
		"/registry/pods/a:b":                   nil,
		"/ä":                                   {maria{}},
		"/\xff":                                {maria{}, postgres{}},
		"/a\x00":                               {postgres{}},
		"/a ":                                  {maria{}},
		"/" + strings.Repeat("x", longestName): {maria{}},
	} {
		for _, d := range []dialect{sqlite(""), postgres{}, maria{}} {
			want := false
			for _, r := range refused {
				want = want || r == d
			}
			if err := d.fits(name); (err != nil) != want {
				t.Errorf("%q in %T: %v", name, d, err)
			}
		}
	}
	e := newExporter(maria{}, nil, &Store{})
	a, b := put(2, "/a"), put(3, "/A")
	if _, _, err := e.stored(&a); err != nil {
		t.Error(err)
	}
	if _, _, err := e.stored(&b); !errors.Is(err, ErrCannotStore) {
		t.Errorf("two spellings: %v", err)
	}
}

// What comes back from kine is what was exported, at the same revision, also if it has no row, and where the revision
// of kine's own row is taken.
func TestExportedRows(t *testing.T) {
	update := put(6, "/a")
	update.CreateRevision, update.Version, update.PrevRevision, update.Lease = 2, 7, 5, 99
	gone := backend.Row{Key: []byte("/b"), ModRevision: 8, PrevRevision: 3, Deleted: true}
	first := put(1, "/first")
	for name, test := range map[string]struct {
		store Store
		want  string
	}{
		"nothing":                   {Store{Revision: 1, Rows: rowsOf()}, ""},
		"no row at the revision":    {Store{Revision: 9, Rows: rowsOf(put(3, "/b"))}, "/b@3 3/1"},
		"no revision without a row": {Store{Revision: 1, Rows: rowsOf(first)}, "/first@1 1/1"},
		"compacted": {
			Store{Revision: 9, Compacted: 7, Rows: rowsOf(put(3, "/b"), update, gone, put(9, "/b"))},
			"/b@3 3/1 /a@6 2/2 /b@8 gone /b@9 9/1",
		},
		"compacted up to a tombstone": {
			Store{Revision: 8, Compacted: 8, Rows: rowsOf(update, gone)},
			"/a@6 2/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			test.store.Leases = []backend.Lease{{ID: 99, TTL: time.Minute}}
			if err := Export(t.Context(), Prefix+"sqlite://"+path, &test.store); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			rows, err := collect(t, s.Rows)
			if err != nil || shown(rows) != test.want {
				t.Errorf("got %s, %v", shown(rows), err)
			}
			// Where all revisions have rows, kine's own one takes the next.
			revision := test.store.Revision
			if name == "no revision without a row" {
				revision++
			}
			if c := s.Contents(); c.Revision != revision || c.Compacted != test.store.Compacted {
				t.Errorf("the contents are %+v", c)
			}
			for _, r := range rows {
				if want := map[int64]int64{6: 60}[r.ModRevision]; r.Lease != want {
					t.Errorf("revision %d has lease %d, want %d", r.ModRevision, r.Lease, want)
				}
			}
		})
	}
}
