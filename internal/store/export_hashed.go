package store

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// CompactRevision returns the compacted revision as etcd counts it: -1 before the first compaction.
func (x *Export) CompactRevision() int64 { return index.EtcdCompacted(x.Compacted) }

// Hashed are rows of an export, of whose values only digests are read.
type Hashed struct {
	x          *Export
	revision   int64
	dead       *superseded
	tombstones int64 // those up to this revision are left out
}

// Exported returns the rows of [Export.Rows]. They can be read until x is closed. Errors: those of [Export.Rows].
func (x *Export) Exported(ctx context.Context) (*Hashed, error) {
	dead, err := x.superseded(ctx, 0, x.Compacted)
	return &Hashed{x, x.Revision, dead, x.Compacted - 1}, err
}

// Hashed returns the rows of which etcd's HashKV(revision) is the hash: all rows above the compacted revision, up to
// revision, and those at or below the compacted revision that are still the newest of their key at revision. If no key
// exists at revision, etcd hashes all keys that existed at the compacted revision, and so do these rows. They can be
// read until x is closed. Errors: [ErrCompacted] and [ErrFutureRevision] for a revision that cannot be read, those of
// [Export.Rows].
func (x *Export) Hashed(ctx context.Context, revision int64) (*Hashed, error) {
	if err := (backend.Clock{Revision: x.Revision, Compacted: x.Compacted}).Check(revision); err != nil {
		return nil, err
	}
	at, err := x.hashedAt(ctx, revision)
	if err != nil {
		return nil, err
	}
	dead, err := x.superseded(ctx, 0, at)
	return &Hashed{x, revision, dead, x.Compacted}, err
}

// hashedAt returns the revision at which rows at or below the compacted revision must be the newest of their key.
func (x *Export) hashedAt(ctx context.Context, revision int64) (int64, error) {
	if x.Compacted <= 0 || revision == x.Compacted {
		return revision, nil
	}
	existing, clock, err := x.s.backend.Range(ctx, backend.RangeQuery{
		Span: index.Span{Open: true}.Backend(), Revision: revision, Limit: 1, KeysOnly: true, Pin: x.shared,
	})
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	if len(existing) == 0 {
		revision = x.Compacted
	}
	return revision, x.check(clock)
}

// hashReaders is how many parts are read at the same time.
const hashReaders = 2

// Parts calls f with the rows and the digests of their values. The rows are divided into n parts: those of a part are
// older than those of the next one, and f is called with them in the order in which they were written, but several
// parts are read concurrently. n must be 2 or more. f must not keep the row after it returns. Errors: those of
// [Export.Rows].
func (h *Hashed) Parts(ctx context.Context, n int, f func(part int, d *backend.Digested) error) error {
	// The rows above the compacted revision tell which of the others they supersede.
	_, below := h.divided(n)
	if err := h.read(ctx, below, n, n, f); err != nil {
		return err
	}
	h.dead.learned()
	return h.read(ctx, 0, below, n, f)
}

// Revisions returns the revisions of a part of [Hashed.Parts]: those above after, up to until.
func (h *Hashed) Revisions(n, part int) (after, until int64) {
	middle, below := h.divided(n)
	if part < below {
		return fraction(middle, part, below), fraction(middle, part+1, below)
	}
	all := h.revision - middle
	return middle + fraction(all, part-below, n-below), middle + fraction(all, part+1-below, n-below)
}

// divided returns the revision up to which the first ones of n parts go, and how many they are.
func (h *Hashed) divided(n int) (middle int64, below int) {
	middle = min(max(h.x.Compacted, 0), h.revision)
	return middle, partsBelow(middle, h.revision, n)
}

// partsBelow returns how many of n parts of the revisions up to the last one are for those up to middle, at least one
// and at most all but one.
func partsBelow(middle, last int64, n int) int {
	return 1 + int(float64(n-2)*(float64(middle)/float64(max(last, 1))))
}

// fraction returns i nths of all. Revisions are too high to be multiplied.
func fraction(all int64, i, n int) int64 {
	return all/int64(n)*int64(i) + all%int64(n)*int64(i)/int64(n)
}

// read reads those of n parts from first on, before past.
func (h *Hashed) read(
	ctx context.Context, first, past, n int, f func(part int, d *backend.Digested) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	next.Store(int64(first))
	for range min(hashReaders, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			var rows []backend.Digested // for all parts that this goroutine reads
			for i := int(next.Add(1) - 1); i < past; i = int(next.Add(1) - 1) {
				after, until := h.Revisions(n, i)
				var err error
				rows, err = h.part(ctx, after, until, rows, func(d *backend.Digested) error { return f(i, d) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// part reads a part. It returns the memory of into, or what has replaced it.
func (h *Hashed) part(
	ctx context.Context, after, until int64, into []backend.Digested, f func(*backend.Digested) error,
) ([]backend.Digested, error) {
	chunk := chunkFirst
	for after < until {
		part, err := h.x.digests(ctx, backend.DigestQuery{After: after, Until: until, Limit: chunk, Into: into})
		if err != nil {
			return nil, err
		}
		h.dead.learn(part.Rows)
		gone, err := h.dead.among(ctx, len(part.Rows), func(i int) *backend.Row { return &part.Rows[i].Row })
		if err != nil {
			return nil, err
		}
		for i := range part.Rows {
			d := &part.Rows[i]
			if gone.next(&d.Row) || d.Row.Deleted && d.Row.ModRevision <= h.tombstones {
				continue
			}
			if err := f(d); err != nil {
				return nil, err
			}
		}
		chunk = min(2*chunk, digestChunk)
		after, into = part.Through, part.Rows
	}
	return into, nil
}

// digestChunk is how many rows are read at a time: few enough that they stay in the processor's cache.
const digestChunk = 2000

// digests reads a part of the rows that the export covers.
func (x *Export) digests(ctx context.Context, q backend.DigestQuery) (backend.Digests, error) {
	q.Bytes, q.Pin = chunkBytes, x.shared
	x.renew(ctx)
	d, err := x.s.backend.Digests(ctx, q)
	if err != nil {
		return d, fmt.Errorf("export: %w", err)
	}
	return d, x.check(d.Clock)
}
