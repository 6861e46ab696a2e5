package store

import (
	"testing"
)

// busyPermits acquires all permits for reads that do not end.
func busyPermits(t *testing.T, s *Store) {
	t.Helper()
	for range s.admission.free {
		permit, err := s.admission.acquire(within(t), notSmall)
		if err != nil {
			t.Fatal(err)
		}
		permit.timer.Stop() // the test ends it
		t.Cleanup(permit.End)
	}
}

// A write that scans many keys of a revision does not wait for long reads, because all other writes would wait with
// it. A short read of a snapshot that a long read left behind does not wait either.
func TestWithoutPermit(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	many(t, s, 2*walkLocked, 2*walkLocked, 1)
	eventually(t, "the index is complete", s.index.Complete)
	all := RangeRequest{Key: []byte("k"), End: []byte("l")}
	list, err := s.Range(within(t), &all)
	if err != nil {
		t.Fatal(err)
	}
	busyPermits(t, s)
	for _, limit := range []int64{0, 2 * longRead} {
		old := all
		old.Revision, old.Limit = list.Revision, limit
		if limit == 0 {
			limit = 2 * walkLocked
		}
		res, err := s.Txn(within(t), &Txn{Success: []Op{{Put: &PutRequest{Key: []byte("a")}}, {Range: &old}}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(res.Results[1].Range.Rows); int64(n) != limit {
			t.Errorf("%d keys, want %d", n, limit)
		}
	}
	for _, end := range []string{"", "k000010"} {
		req := &RangeRequest{Key: []byte("k000001"), End: []byte(end), Revision: list.Revision}
		want := map[string]int{"": 1, "k000010": 9}[end]
		if res, err := s.Range(within(t), req); err != nil || len(res.Rows) != want {
			t.Fatalf("%s: %+v, %v", end, res, err)
		}
	}
}
