package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// losePins deletes all pins from the database, like a failover to a standby that has received every revision but no
// pin.
func losePins(t *testing.T, dsn string) {
	t.Helper()
	execute(t, dsn, "DELETE FROM holds")
}

// sharedPins counts the open streams whose pins are in the database.
func sharedPins(s *Store) (n int) {
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	for p := range s.pins.open {
		if p.shared.id != 0 {
			n++
		}
	}
	return n
}

// rewrite changes n keys, compacts their previous versions and purges as much as the pins allow.
func rewrite(t *testing.T, s *Store, n int) backend.PurgeResult {
	t.Helper()
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "new")
	}
	if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
		t.Fatal(err)
	}
	res, err := s.PurgeStep(within(t), 10*n)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestStreamHoldsOffPurgeOnOtherReplicas has another replica compact and purge under a stream whose pin is shared. The
// stream returns every row or fails: if its pin is lost, it must not return only the rows that remain.
func TestStreamHoldsOffPurgeOnOtherReplicas(t *testing.T) {
	t.Parallel()
	const n = 50
	for name, c := range map[string]struct {
		req  RangeRequest
		lost bool
		want int64 // rows, or the count
	}{
		"rows":           {want: n},
		"keys":           {req: RangeRequest{KeysOnly: true}, want: n},
		"page":           {req: RangeRequest{Limit: streamFirst}, want: n},
		"rows, pin lost": {lost: true},
		"keys, pin lost": {req: RangeRequest{KeysOnly: true}, lost: true},
		"page, pin lost": {req: RangeRequest{Limit: streamFirst}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := pgserver.Database(t)
			all := replicasOn(t, 2, Config{DisableIndex: true}, dsn)
			for i := range n {
				put(t, all[0], fmt.Sprintf("k%04d", i), "old")
			}
			req := c.req
			req.Key, req.End = []byte{0}, []byte{0}
			var purged *backend.PurgeResult
			got := 0
			res, err := all[0].RangeStream(within(t), &req, func(rows []*Row, _ bool) error {
				for _, r := range rows {
					if v := string(r.Value); v != "old" && !req.KeysOnly || r.ModRevision > n+1 {
						t.Errorf("got %s", rowText(r))
					}
				}
				got += len(rows)
				if purged == nil {
					eventually(t, "the database has the pin", func() bool { return sharedPins(all[0]) == 1 })
					if c.lost {
						losePins(t, dsn)
					}
					res := rewrite(t, all[1], n)
					purged = &res
				}
				return nil
			})
			switch {
			case c.lost:
				if !errors.Is(err, ErrCompacted) || purged.Removed != n {
					t.Errorf("%d rows, %v, after a purge of %+v", got, err, *purged)
				}
			case err != nil || purged.Removed != 0 || purged.Done:
				t.Errorf("%v, after a purge of %+v", err, *purged)
			case res.Count != c.want || req.Limit == 0 && got != n:
				t.Errorf("%d rows, %d counted", got, res.Count)
			}
		})
	}
}

// TestStreamMeetsLostHistory loses the revision that a stream with a pin reads at: the pin does not reveal the loss.
func TestStreamMeetsLostHistory(t *testing.T) {
	const n = 50
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{DisableIndex: true}, dsn)[0]
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "old")
	}
	began := false
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}}, func([]*Row, bool) error {
		if !began {
			began = true
			eventually(t, "the database has the pin", func() bool { return sharedPins(s) == 1 })
			r := replicaOf(s)
			r.mu.Lock() // so that only the stream notices the loss
			t.Cleanup(r.mu.Unlock)
			execute(t, dsn, "DELETE FROM object_versions WHERE resource_version > 30")
			execute(t, dsn, "UPDATE clock SET revision = 30")
		}
		return nil
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestStreamFetchesOverLostHistory has others reuse the numbers of lost revisions under a stream that has its keys in
// memory and its values in the database.
func TestStreamFetchesOverLostHistory(t *testing.T) {
	const n = 50
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{CacheBytes: 1}, dsn)[0]
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "old")
	}
	eventually(t, "the index is loaded", s.index.Complete)
	got := 0
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}}, func(rows []*Row, _ bool) error {
		for _, r := range rows {
			if string(r.Value) != "old" {
				t.Errorf("got %s", rowText(r))
			}
		}
		if got += len(rows); got == streamFirst {
			var others []backend.Row
			for i := 29; i < n; i++ {
				others = append(others, backend.Row{
					Key: fmt.Appendf(nil, "k%04d", i), ModRevision: int64(i + 2), Value: []byte("other"),
				})
			}
			forge(t, dsn, others, "UPDATE clock SET batch = 4711")
			if err := s.confirm(within(t)); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, backend.ErrOtherEpoch) || got != streamFirst {
		t.Errorf("%d rows, %v", got, err)
	}
}

// TestGetOverUnnoticedLoss has others reuse the numbers of lost revisions before this replica notices the loss.
func TestGetOverUnnoticedLoss(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{CacheBytes: 1}, dsn)[0]
	for i := range 10 {
		put(t, s, fmt.Sprintf("k%d", i), "old")
	}
	eventually(t, "the index is loaded", s.index.Complete)
	forge(t, dsn, []backend.Row{{Key: []byte("k3x"), ModRevision: 5, Value: []byte("other")}}, "SELECT 1")
	if res, err := s.Range(within(t), &RangeRequest{Key: []byte("k3"), Serializable: true}); !errors.Is(err,
		backend.ErrOtherEpoch) {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := s.Range(within(t), &RangeRequest{Key: []byte("k4"), Serializable: true}); err != nil ||
		len(res.Rows) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// exportOf puts n keys and returns an export of the store. It is closed when the test ends.
func exportOf(t *testing.T, s *Store, n int) *Export {
	t.Helper()
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "old")
	}
	x, err := s.Export(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// TestExportWithoutItsPin loses an export's pin and purges on another replica.
func TestExportWithoutItsPin(t *testing.T) {
	const n = 300 // more than one chunk
	dsn := pgserver.Database(t)
	all := replicasOn(t, 2, Config{}, dsn)
	x := exportOf(t, all[0], n)
	purged := false
	err := x.Rows(within(t), func(backend.Row) error {
		if !purged {
			purged = true
			losePins(t, dsn)
			if res := rewrite(t, all[1], n); res.Removed != n {
				t.Errorf("purged %+v", res)
			}
		}
		return nil
	})
	if !errors.Is(err, ErrCompacted) {
		t.Errorf("the export ended with %v", err)
	}
}

// TestLongExport has the time of an export's pin pass. The export renews it while it is read, so that another
// replica's purge finds it.
func TestLongExport(t *testing.T) {
	const n = 300 // more than two chunks
	dsn := pgserver.Database(t)
	clock := &fakeClock{}
	all := replicasOn(t, 2, Config{Now: clock.now}, dsn)
	x := exportOf(t, all[0], n)
	x.Chunk = n / 3
	rows := 0
	err := x.Rows(within(t), func(r backend.Row) error {
		switch rows++; rows {
		case 1:
			execute(t, dsn, "UPDATE holds SET expires_at = clock_timestamp()")
			clock.pass(exportRenewal)
		case n - 1:
			if res := rewrite(t, all[1], n); res.Removed != 0 || res.Done {
				t.Errorf("purged %+v", res)
			}
		}
		if v := string(r.Value); v != "old" {
			t.Errorf("%s is %q", r.Key, v)
		}
		return nil
	})
	if err != nil || rows != n {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestExportMeetsLostHistory loses revisions during an export, and others reuse their numbers.
func TestExportMeetsLostHistory(t *testing.T) {
	const n = 300
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "old")
	}
	x, err := s.Export(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	began := false
	err = x.Rows(within(t), func(backend.Row) error {
		if began {
			return nil
		}
		began = true
		execute(t, dsn, "UPDATE object_versions SET batch = 4711 WHERE resource_version > 200")
		execute(t, dsn, "UPDATE clock SET batch = 4711")
		_, err := s.Range(within(t), &RangeRequest{Key: []byte("k")}) // notices the loss
		if s.Epoch() != 2 {
			t.Errorf("epoch %d, want 2", s.Epoch())
		}
		return err
	})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("the export ended with %v", err)
	}
}
