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

// A row that has lost its checksum is damaged like any other.
func TestRowWithoutChecksum(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("k", 2)); err != nil {
		t.Fatal(err)
	}
	admin(t, dsn, "ALTER TABLE object_versions ALTER COLUMN checksum DROP NOT NULL")
	admin(t, dsn, "UPDATE object_versions SET checksum = NULL")
	all, one := backend.Span{End: []byte{}}, backend.Span{Start: []byte("k")}
	for what, read := range map[string]func() error{
		"get": func() error {
			_, _, err := b.Range(t.Context(), backend.RangeQuery{Span: one, Revision: 2, Limit: 1})
			return err
		},
		"list": func() error {
			_, _, err := b.Range(t.Context(), backend.RangeQuery{Span: all, Revision: 2, Limit: 100, Bytes: 1 << 20})
			return err
		},
		"rows": func() error {
			ids := make([]backend.RowID, 2*fewRows)
			ids[0].ModRevision = 2
			_, _, err := b.Rows(t.Context(), ids, 1<<20)
			return err
		},
		"history": func() error {
			_, err := b.History(t.Context(), backend.HistoryQuery{Span: all, Limit: 10})
			return err
		},
		"tail": func() error {
			_, err := b.Tail(t.Context(), backend.TailQuery{After: 1, Limit: 10})
			return err
		},
		"digests": func() error {
			_, err := b.Digests(t.Context(), backend.DigestQuery{Limit: 10})
			return err
		},
		"verify": func() error { return b.Verify(t.Context(), &counting{}) },
	} {
		if err := read(); !errors.Is(err, backend.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	v, err := OpenView(t.Context(), Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	i := &backend.Inspection{}
	if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil || i.Found != 1 {
		t.Errorf("inspection: %q, %v", i.Problems, err)
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
