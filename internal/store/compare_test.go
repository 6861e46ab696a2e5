package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// All replicas agree with the database after any history, whatever a purge has removed.
func TestCompareDatabase(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{0, 2} {
		for seed := range uint64(4) {
			w := newWorld(t, small(Config{}), false, replicas, randomBytes(seed, 2000))
			for !w.g.done() {
				w.txn(within(t))
			}
			eventually(t, "the index is loaded", w.s.index.Complete)
			for range 3 {
				res, err := w.s.CompareDatabase(within(t))
				if keys := len(w.m.at(w.m.rev)); err != nil || res.Keys != int64(keys) || res.Revision < w.m.rev {
					t.Fatalf("seed %d: %+v, %v; %d keys exist", seed, res, err, keys)
				}
				if _, err := w.s.Compact(within(t), w.s.Compacted()+(w.m.rev-w.s.Compacted())/2, true); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// writeToCompare writes the revisions 2 to 6: a, b, a, c, and a tombstone of c.
func writeToCompare(t *testing.T, s *Store) {
	t.Helper()
	for _, key := range []string{"a", "b", "a", "c"} {
		put(t, s, key, "v")
	}
	if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("c")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the index is loaded", s.index.Complete)
}

func wantDifference(t *testing.T, s *Store, want string) {
	t.Helper()
	res, err := s.CompareDatabase(within(t))
	if !errors.Is(err, backend.ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v; want: %s", res, err, want)
	}
	eventually(t, "the alarm is raised", func() bool { return corruptAlarm(s) })
}

func TestCompareDamagedDatabase(t *testing.T) {
	for statement, want := range map[string]string{
		"UPDATE object_versions SET version = 2 WHERE resource_version = 2": "checksum",
		"DELETE FROM object_versions WHERE resource_version = 3":            "keys have no row: 1",
		"DELETE FROM object_versions WHERE resource_version = 4":            "keys have no row: 1",
		"DELETE FROM object_versions WHERE resource_version = 6":            "keys are missing: 1",
	} {
		back, damage := openDamageable(t)
		s := openStore(t, back, Config{})
		writeToCompare(t, s)
		if res, err := s.CompareDatabase(within(t)); err != nil || res.Rows != 5 || res.Keys != 2 {
			t.Fatalf("a sound database: %+v, %v", res, err)
		}
		damage(statement)
		wantDifference(t, s, want)
	}
}

// A replica whose memory differs raises the alarm, and the others do not.
func TestCompareDamagedMemory(t *testing.T) {
	all := replicasOn(t, 2, Config{}, pgserver.Database(t))
	writeToCompare(t, all[0])
	if err := all[1].confirm(within(t)); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		eventually(t, "the index is loaded", s.index.Complete)
		if res, err := s.CompareDatabase(within(t)); err != nil || res.Keys != 2 {
			t.Fatalf("replica %d: %+v, %v", i, res, err)
		}
	}
	s := all[1]
	it, _ := s.index.Get("a")
	forget := func(r backend.Row) {
		s.index.Apply([]*index.Item{index.NewBareItem(r)}, s.Revision(), 0)
	}
	other := it.Row
	other.Version++
	forget(other)
	wantDifference(t, s, `key "a" at revision 4`)
	older := it.Row
	older.ModRevision, older.PrevRevision, older.Version = 2, 0, 1
	forget(older)
	wantDifference(t, s, `key "a" is at revision 2, and not at 4`)
	gone := it.Row
	gone.Deleted = true
	forget(gone)
	wantDifference(t, s, "keys are missing: 1")
	forget(it.Row)
	for i, s := range all {
		if res, err := s.CompareDatabase(within(t)); err != nil || res.Keys != 2 {
			t.Errorf("replica %d: %+v, %v", i, res, err)
		}
	}
}

// A key that is missing in memory is noticed, too, if its row is older than the compacted revision.
func TestCompareCompactedMemory(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	writeToCompare(t, s)
	if _, err := s.Compact(within(t), s.Revision(), true); err != nil {
		t.Fatal(err)
	}
	if res, err := s.CompareDatabase(within(t)); err != nil || res.Keys != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	it, _ := s.index.Get("b")
	gone := it.Row
	gone.Deleted = true
	s.index.Apply([]*index.Item{index.NewBareItem(gone)}, s.Revision(), 0)
	wantDifference(t, s, "keys are missing: 1")
}
