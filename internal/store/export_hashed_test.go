package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A hash covers the same rows whatever a purge has removed, with and without the index.
func TestHashed(t *testing.T) {
	for _, physical := range []bool{true, false} {
		for _, disabled := range []bool{true, false} {
			t.Run(fmt.Sprintf("physical=%t,index=%t", physical, !disabled), func(t *testing.T) {
				w := newWorld(t, small(Config{DisableIndex: disabled}), false, 0, randomBytes(5, 2000))
				for !w.g.done() {
					w.txn(within(t))
				}
				compacted := w.m.rev / 2
				if _, err := w.s.Compact(within(t), compacted, physical); err != nil {
					t.Fatal(err)
				}
				for _, revision := range []int64{compacted, compacted + 1, w.m.rev - 2, w.m.rev} {
					wantHashed(t, w, revision)
				}
				// Without any key, what existed at the compacted revision counts.
				all := &Txn{Success: []Op{{Delete: &DeleteRequest{Key: []byte{0}, End: []byte{0}}}}}
				if _, err := w.s.Txn(within(t), all); err != nil {
					t.Fatal(err)
				}
				if _, err := w.m.txn(all); err != nil {
					t.Fatal(err)
				}
				wantHashed(t, w, w.m.rev)
			})
		}
	}
}

func wantHashed(t *testing.T, w *world, revision int64) {
	t.Helper()
	x, err := w.s.Export(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var want []string
	hashed, err := x.Hashed(within(t), revision)
	if err != nil {
		t.Fatal(err)
	}
	var parts [6][]string
	if err := hashed.Parts(within(t), len(parts), func(i int, d *backend.Digested) error {
		parts[i] = append(parts[i], digestText(&d.Row, d.Digest))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(parts[:]...)
	retained := w.m.at(revision)
	if len(retained) == 0 {
		retained = w.m.at(x.Compacted)
	}
	for i := range w.m.rows {
		r := &w.m.rows[i]
		now, ok := retained[string(r.Key)]
		if r.ModRevision <= revision && (r.ModRevision > x.Compacted || ok && now.ID() == r.ID()) {
			want = append(want, digestText(r, backend.DigestOf(r.Value)))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("at revision %d, compacted at %d:\n%v\nwant\n%v", revision, x.Compacted, got, want)
	}
	for wrong, want := range map[int64]error{x.Compacted - 1: ErrCompacted, x.Revision + 1: ErrFutureRevision} {
		if _, err := x.Hashed(within(t), wrong); !errors.Is(err, want) {
			t.Errorf("revision %d of %d to %d returned %v", wrong, x.Compacted, x.Revision, err)
		}
	}
}

// digestText is rowText of a row without its value.
func digestText(r *backend.Row, d backend.Digest) string {
	bare := *r
	bare.Value = nil
	return fmt.Sprint(rowText(&bare), d)
}

// statements counts what is read of a backend.
type statements struct {
	backend.Backend
	n atomic.Int64
}

func (s *statements) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	s.n.Add(1)
	return s.Backend.Range(ctx, q)
}

func (s *statements) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	s.n.Add(1)
	return s.Backend.History(ctx, q)
}

func (s *statements) Digests(ctx context.Context, q backend.DigestQuery) (backend.Digests, error) {
	s.n.Add(1)
	return s.Backend.Digests(ctx, q)
}

func (s *statements) Superseded(
	ctx context.Context, q backend.SupersededQuery,
) ([]backend.RowID, backend.Clock, error) {
	s.n.Add(1)
	return s.Backend.Superseded(ctx, q)
}

// The parts of a hash cover the revisions without a gap, also those of a Postgres database whose revision was raised.
func TestPartsOfHighRevisions(t *testing.T) {
	const n = 128
	for _, last := range []int64{0, 1, 7, 1000, 1 << 43, 1<<62 - 1, 1 << 62} {
		for _, middle := range []int64{0, last / 3, last} {
			if below := partsBelow(middle, last, n); below < 1 || below > n-1 {
				t.Errorf("%d of %d parts are for the revisions up to %d of %d", below, n, middle, last)
			}
		}
		for i := range n {
			if a, b := fraction(last, i, n), fraction(last, i+1, n); a > b || a < 0 || b > last {
				t.Errorf("part %d of %d revisions is from %d to %d", i, last, a, b)
			}
		}
		if a, b := fraction(last, 0, n), fraction(last, n, n); a != 0 || b != last {
			t.Errorf("%d revisions are divided from %d to %d", last, a, b)
		}
	}
}

// An export reads many rows with each statement, even if all keys have changed since the compaction, before and after a
// purge.
func TestExportStatements(t *testing.T) {
	const keys = 2000
	for _, physical := range []bool{true, false} {
		b := &statements{Backend: openSQLite(t)}
		s := openStore(t, b, Config{})
		eventually(t, "the index is loaded", s.index.Complete)
		many(t, s, keys, 100, 10)
		if _, err := s.Compact(within(t), s.Revision(), physical); err != nil {
			t.Fatal(err)
		}
		many(t, s, keys, 100, 10)
		x, err := s.Export(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		const most = 20
		rows := 0
		b.n.Store(0)
		if err := x.Rows(within(t), func(backend.Row) error { rows++; return nil }); err != nil {
			t.Fatal(err)
		}
		if n := b.n.Load(); rows != 2*keys || n > most {
			t.Errorf("physical %t: %d rows were read with %d statements, want %d and at most %d", physical, rows, n,
				2*keys, most)
		}
		for _, revision := range []int64{x.Revision, x.Compacted} {
			rows = 0
			b.n.Store(0)
			h, err := x.Hashed(within(t), revision)
			if err == nil {
				err = h.Parts(within(t), 2, func(int, *backend.Digested) error { rows++; return nil })
			}
			if n := b.n.Load(); err != nil || rows != keys || n > most {
				t.Errorf("physical %t: %d digests at %d were read with %d statements, %v; want %d and at most %d",
					physical, rows, revision, n, err, keys, most)
			}
		}
	}
}

// purging purges before each question which rows are superseded.
type purging struct {
	backend.Backend
	purge func()
}

func (p *purging) Superseded(
	ctx context.Context, q backend.SupersededQuery,
) ([]backend.RowID, backend.Clock, error) {
	p.purge()
	return p.Backend.Superseded(ctx, q)
}

// A purge may delete superseded rows after an export has read them.
func TestExportBesidePurge(t *testing.T) {
	const keys = 300
	for _, hashed := range []bool{true, false} {
		b := &purging{Backend: openSQLite(t)}
		s := openStore(t, b, Config{DisableIndex: true})
		many(t, s, keys, 100, 10)
		many(t, s, keys, 100, 10)
		if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
			t.Fatal(err)
		}
		var removed int64
		b.purge = func() {
			for done := false; !done; {
				res, err := s.PurgeStep(within(t), 1000)
				if err != nil {
					t.Fatal(err)
				}
				removed += int64(res.Removed)
				done = res.Done
			}
		}
		x, err := s.Export(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		rows := 0
		if hashed {
			var h *Hashed
			if h, err = x.Hashed(within(t), x.Revision); err == nil {
				err = h.Parts(within(t), 2, func(int, *backend.Digested) error { rows++; return nil })
			}
		} else {
			err = x.Rows(within(t), func(backend.Row) error { rows++; return nil })
		}
		if err != nil || rows != keys || removed != keys {
			t.Errorf("hashed %t: %d rows, %d purged, %v; want %d of each", hashed, rows, removed, err, keys)
		}
	}
}
