package postgres

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// The keys are forgotten if the progress in the database is not that of the last step. If there are many, those go that
// have not been purged for the longest time.
func TestPurgedKeys(t *testing.T) {
	at := func(next int64) purgeProgress { return purgeProgress{100, backend.RowID{ModRevision: next}} }
	a, b := []byte("a"), []byte("b")
	var k purgedKeys
	k.add(purgedStep{before: at(0), after: at(10), keys: [][]byte{a}, revisions: []int64{10}})
	k.add(purgedStep{before: at(10), after: at(20), keys: [][]byte{b}, revisions: []int64{20}})
	k.add(purgedStep{before: at(20), after: at(20)})
	for _, c := range []struct {
		progress purgeProgress
		want     []int64
	}{{at(20), []int64{9, 19}}, {at(10), []int64{0, 0}}, {at(20), []int64{9, 19}}} {
		if got := k.below(c.progress, [][]byte{a, b}); !slices.Equal(got, c.want) {
			t.Errorf("at %v: %v, want %v", c.progress, got, c.want)
		}
	}
	k.add(purgedStep{before: at(10), after: at(20)}) // a crash has undone a step
	if got := k.below(at(20), [][]byte{a, b}); !slices.Equal(got, []int64{0, 0}) {
		t.Errorf("after a crash: %v", got)
	}
	for i := range int64(3 * purgedKeysMost) {
		s := purgedStep{before: at(20 + i), after: at(21 + i)}
		s.keys, s.revisions = [][]byte{fmt.Append(nil, i)}, []int64{i}
		if i%100 == 0 {
			s.keys, s.revisions = append(s.keys, a), append(s.revisions, i+2)
		}
		k.add(s)
	}
	got := k.below(k.progress, [][]byte{a, []byte("0")})
	if n := len(k.recent) + len(k.older); got[0] == 0 || got[1] != 0 || n > 2*purgedKeysMost+1 {
		t.Errorf("%v with %d keys", got, n)
	}
}

// A step does not search what this process has removed already, which would read the index entries of these rows for as
// long as a snapshot preserves them. Once a crash may have brought such rows back, it does.
func TestPurgeOfHotKey(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	// cycle puts and deletes the key at rev and rev+1, compacts, and purges.
	cycle := func(rev int64) {
		t.Helper()
		deleted := row("hot", rev+1)
		deleted.Rows[0] = backend.Row{Key: []byte("hot"), ModRevision: rev + 1, Deleted: true, PrevRevision: rev}
		last := row("other", rev+2)
		last.Compacted = rev + 2
		for _, e := range []*backend.Effects{row("hot", rev), deleted, last} {
			if err := begin(t, b, backend.Needs{}).Commit(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		res, err := b.Purge(t.Context(), 100, math.MaxInt64)
		if err != nil || !res.Done {
			t.Fatalf("purge: %+v, %v", res, err)
		}
	}
	left := func() (n int) {
		t.Helper()
		admin(t, dsn, "SELECT count(*) FROM object_versions WHERE key = 'hot'", &n)
		return n
	}
	cycle(2)
	if n := left(); n != 0 {
		t.Fatalf("%d rows are left", n)
	}
	admin(t, dsn, "INSERT INTO object_versions (key, batch, value, checksum, written_at, "+rest+") "+
		"SELECT 'hot', batch, value, checksum, written_at, "+strings.Replace(rest, "resource_version", "2", 1)+
		" FROM object_versions WHERE key = 'other'")
	cycle(5)
	if n := left(); n != 1 {
		t.Errorf("%d rows are left, want the one below those that were removed", n)
	}
	admin(t, dsn, "UPDATE purge SET next_version = 5, next_ordinal = 0")
	cycle(8)
	if n := left(); n != 0 {
		t.Errorf("%d rows are left after a crash", n)
	}
}

// A transaction may delete a key and put it again. Its tombstone is removed, but its other row is not.
func TestPurgeOfKeyPutAgain(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	commit := func(rev int64, rows ...backend.Row) {
		t.Helper()
		for i := range rows {
			r := &rows[i]
			r.Key, r.ModRevision, r.Ordinal = []byte("k"), rev, int32(i)
			if !r.Deleted {
				r.Value, r.CreateRevision, r.Version = []byte("v"), rev, 1
			}
		}
		e := &backend.Effects{Batch: 1, Revision: rev, Rows: rows}
		if len(rows) == 0 {
			e = row("other", rev)
			e.Compacted = rev
		}
		if err := begin(t, b, backend.Needs{}).Commit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			if _, err := b.Purge(t.Context(), 100, math.MaxInt64); err != nil {
				t.Fatal(err)
			}
		}
	}
	commit(2, backend.Row{})
	commit(3, backend.Row{Deleted: true, PrevRevision: 2}, backend.Row{})
	commit(4)
	commit(5, backend.Row{}) // damaged: it does not name the row that it superseded
	commit(6, backend.Row{Deleted: true, PrevRevision: 5})
	commit(7)
	var left int
	admin(t, dsn, "SELECT count(*) FROM object_versions WHERE key = 'k'", &left)
	if left != 0 {
		t.Errorf("%d rows of a deleted key are left without its tombstone", left)
	}
}
