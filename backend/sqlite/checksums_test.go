package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
)

// TestFlippedBits flips single bits of a value in the stopped file, and of its key, in the table and in the index: no
// read returns another value or key.
func TestFlippedBits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	key, value := []byte("/registry/a/key/that/is/unique"), incompressible(20_000) // on several pages
	if err := errors.Join(write(b, "other", []byte("v")), write(b, string(key), value)); err != nil {
		t.Fatal(err)
	}
	newest := revision(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	var places []int // of the value, in pieces, and of the key, in the table and in the index
	for i := 0; i+50 <= len(value); i += 997 {
		if at := bytes.Index(whole, value[i:i+50]); at > 0 {
			places = append(places, at+random.IntN(50))
		}
	}
	if len(places) < 10 {
		t.Fatalf("found the value at %v", places)
	}
	for from := 0; bytes.Contains(whole[from:], key); {
		at := from + bytes.Index(whole[from:], key)
		places = append(places, at+random.IntN(len(key)))
		from = at + 1
	}
	refused := 0
	for _, at := range places {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1 << random.IntN(8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Open(t.Context(), Config{Path: path})
		if errors.Is(err, ErrCorrupt) { // the key in the table and that in the index differ
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		wrong := func(read string, rows []backend.Row, err error) {
			if err != nil && !errors.Is(err, backend.ErrCorrupt) {
				t.Errorf("%s, byte %d damaged: %v", read, at, err)
			}
			for _, r := range rows {
				if err == nil && r.ModRevision == newest && (!bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value)) {
					t.Errorf("%s, byte %d damaged: another row", read, at)
				}
			}
		}
		got, _, err := b.Range(t.Context(),
			backend.RangeQuery{Span: backend.Span{Start: key}, Revision: newest, Limit: 1})
		wrong("get", got, err)
		all, _, err := b.Range(t.Context(),
			backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: newest, Limit: 10})
		wrong("list", all, err)
		h, err := b.History(t.Context(), backend.HistoryQuery{Limit: 10})
		rows := make([]backend.Row, len(h.Changes))
		for i := range rows {
			rows[i] = h.Changes[i].Row
		}
		wrong("history", rows, err)
		byID, _, err := b.Rows(t.Context(), []backend.RowID{{ModRevision: newest}}, 0)
		wrong("rows", byID, err)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused > 2 {
		t.Errorf("%d files of %d were refused, want 2 at most", refused, len(places))
	}
}

// A row that has lost its checksum is damaged like any other.
func TestRowWithoutChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	if err := errors.Join(write(b, "k", []byte("v")), b.Close()); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "PRAGMA writable_schema = on; UPDATE sqlite_schema SET sql = "+
		"replace(sql, 'checksum         INTEGER NOT NULL', 'checksum INTEGER') WHERE name = 'object_versions'")
	edit(t, path, "UPDATE object_versions SET checksum = NULL")
	b = openTest(t, Config{Path: path})
	_, _, ranged := b.Range(t.Context(), backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: 2, Limit: 9})
	_, _, rows := b.Rows(t.Context(), []backend.RowID{{ModRevision: 2}}, 0)
	_, history := b.History(t.Context(), backend.HistoryQuery{Limit: 9})
	_, digests := b.Digests(t.Context(), backend.DigestQuery{Limit: 9})
	for what, err := range map[string]error{"range": ranged, "rows": rows, "history": history, "digests": digests} {
		if !errors.Is(err, backend.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	v, err := OpenView(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	i := &backend.Inspection{}
	if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil ||
		!strings.Contains(fmt.Sprint(i.Problems), "does not match its checksum") {
		t.Errorf("inspection: %q, %v", i.Problems, err)
	}
}

// Digests notice a damaged page, also in the middle of a long value, although they do not return values.
func TestDigestsOfDamagedPages(t *testing.T) {
	for _, size := range []int{1000, 9000, 100_000} {
		value, sound := incompressible(size), filepath.Join(t.TempDir(), "db")
		closed(t, sound, func(b *Backend) {
			if err := write(b, "damaged", value); err != nil {
				t.Fatal(err)
			}
			writeKeys(t, b, strings.Split(strings.Repeat("l", 100), "")...)
		})
		whole, err := os.ReadFile(sound)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range 10 {
			at := bytes.LastIndex(whole, value[size*i/10:][:32])
			if at < 0 { // it is on two pages
				continue
			}
			found++
			path := filepath.Join(t.TempDir(), "db")
			copyFile(t, sound, path)
			copyFile(t, sound+".lock", path+".lock")
			info, err := os.Stat(sound)
			if err == nil {
				err = os.Chtimes(path, time.Time{}, info.ModTime())
			}
			if err != nil {
				t.Fatal(err)
			}
			flipInPlace(t, path, int64(at))
			b := openTest(t, Config{Path: path})
			if d, err := b.Digests(t.Context(), backend.DigestQuery{Limit: 99}); !errors.Is(err, backend.ErrCorrupt) {
				t.Errorf("%d bytes, part %d: %d rows, %v", size, i, len(d.Rows), err)
			}
		}
		if found < 5 {
			t.Errorf("%d bytes: only %d parts were found in the file", size, found)
		}
	}
}

// Digests read values whose pages nobody verifies.
func TestDigestsWithoutPageChecksums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	value := incompressible(20_000)
	if err := errors.Join(write(b, "k", value), b.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, value[10_000:10_050])
	if at < 0 {
		t.Fatal("the value is not in the file")
	}
	flipInPlace(t, path, int64(at))
	b = openTest(t, Config{Path: path, NoPageChecksums: true})
	if d, err := b.Digests(t.Context(), backend.DigestQuery{Limit: 9}); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("digests of a damaged value: %+v, %v", d, err)
	}
}

// TestTimesNeverDecrease sets the machine's clock back, also across a restart.
func TestTimesNeverDecrease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	var times []int64
	commit := func(now int64) {
		t.Helper()
		b.now = func() int64 { return now }
		if err := write(b, "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
		c, _, err := b.WrittenAt(t.Context(), revision(t, b))
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, c.At.UnixMilli())
	}
	commit(5000)
	commit(4000)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	commit(3000)
	commit(6000)
	if want := []int64{5000, 5000, 5000, 6000}; !slices.Equal(times, want) {
		t.Errorf("times %v, want %v", times, want)
	}
}

// TestViewOfAnotherSchema refuses a file that a newer program has migrated, one without a schema, and none.
func TestViewOfAnotherSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	for version, want := range map[int]error{0: ErrNotSQLStore, 2: schema.ErrNewer} {
		execute(t, b, fmt.Sprintf("UPDATE schema_migrations SET version = %d", version))
		if _, err := OpenView(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("version %d: %v, want %v", version, err, want)
		}
	}
	if _, err := OpenView(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
