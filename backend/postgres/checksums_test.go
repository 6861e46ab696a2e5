package postgres

import (
	"errors"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// TestCorruptTail damages a row that another replica has yet to read.
func TestCorruptTail(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	for revision := int64(2); revision < 4; revision++ {
		if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("k", revision)); err != nil {
			t.Fatal(err)
		}
	}
	admin(t, dsn, "UPDATE object_versions SET value = 'x' WHERE resource_version = 3")
	whole := backend.TailQuery{After: 1, Limit: 10}
	if tail, err := b.Tail(t.Context(), whole); !errors.Is(err, backend.ErrCorrupt) || len(tail.Changes) > 0 {
		t.Errorf("a tail %+v, %v", tail, err)
	}
	if _, err := b.Begin(t.Context(), backend.Needs{Tail: &whole}); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("a tail under the lock: %v", err)
	}
	// The connection and the clock are free again, and what lies before the damage is readable.
	begin(t, b, backend.Needs{}).Rollback()
	if tail, err := b.Tail(t.Context(), backend.TailQuery{After: 1, Limit: 10, Until: 2}); err != nil ||
		len(tail.Changes) != 1 {
		t.Errorf("a tail %+v, %v", tail, err)
	}
}

// TestChecksumsOfOldReplicas adds checksums to rows that replicas of an older version write after everything else has
// one.
func TestChecksumsOfOldReplicas(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	added := func() (n int) {
		t.Helper()
		for {
			res, err := b.AddChecksums(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			if n += res.Added; res.Done {
				return n
			}
		}
	}
	if n := added(); n != 0 {
		t.Errorf("%d in an empty store", n)
	}
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("new", 2)); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, version, lease, " +
			"previous_version, batch, value) VALUES (3, 0, 'old', false, 3, 1, 0, 0, 1, 'v'), " +
			"(4, 0, 'old', true, 0, 0, 0, 3, 1, NULL)",
		"UPDATE clock SET revision = 4",
	} {
		admin(t, dsn, sql)
	}
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("new", 5)); err != nil {
		t.Fatal(err)
	}
	if n := added(); n != 2 {
		t.Errorf("%d rows got a checksum", n)
	}
	left := 0
	admin(t, dsn, "SELECT count(*) FROM object_versions WHERE checksum IS NULL", &left)
	h, err := b.History(t.Context(), backend.HistoryQuery{Limit: 10})
	if err != nil || left != 0 || len(h.Changes) != 4 {
		t.Errorf("%d rows without, history %+v, %v", left, h, err)
	}
	if c, _, err := b.CurrentAt(t.Context(), mustWritten(t, b, 5).At); err != nil || c.Revision != 5 {
		t.Errorf("current then: %+v, %v", c, err)
	}
	if _, _, err := b.WrittenAt(t.Context(), 3); !errors.Is(err, backend.ErrUnknownTime) {
		t.Errorf("the time of an old row: %v", err)
	}
}

func mustWritten(t *testing.T, b *Backend, revision int64) backend.Commit {
	t.Helper()
	c, _, err := b.WrittenAt(t.Context(), revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTimesNeverDecrease has the last commit come from a server whose clock is an hour ahead.
func TestTimesNeverDecrease(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("k", 2)); err != nil {
		t.Fatal(err)
	}
	admin(t, dsn, "UPDATE clock SET written_at = "+
		"(date_part('epoch', clock_timestamp() + interval '1 hour') * 1000)::bigint")
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("l", 3)); err != nil {
		t.Fatal(err)
	}
	same := false
	admin(t, dsn, "SELECT written_at = (SELECT written_at FROM object_versions WHERE resource_version = 3) "+
		"AND to_timestamp(written_at / 1000) > clock_timestamp() + interval '50 minutes' FROM clock", &same)
	if first, second := mustWritten(t, b, 2), mustWritten(t, b, 3); !same || second.At.Before(first.At) {
		t.Errorf("written at %v, then %v", first, second)
	}
}
