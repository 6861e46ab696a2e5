package store

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// CompactRevision returns the compacted revision as etcd counts it: -1 before the first compaction.
func (x *Export) CompactRevision() int64 { return index.EtcdCompacted(x.Compacted) }

// Hashed are the rows of which etcd's HashKV(revision) is the hash: all rows above the compacted revision, up to
// revision, and those at or below the compacted revision that are still the newest of their key at revision. If no key
// exists at revision, etcd hashes all keys that existed at the compacted revision, and so do these rows.
type Hashed struct {
	x    *Export
	dead *superseded
}

// Hashed returns the rows to hash for a revision. They can be read until x is closed. Errors: [ErrCompacted] and
// [ErrFutureRevision] for a revision that cannot be read, those of [Export.Rows].
func (x *Export) Hashed(ctx context.Context, revision int64) (*Hashed, error) {
	if err := (backend.Clock{Revision: x.Revision, Compacted: x.Compacted}).Check(revision); err != nil {
		return nil, err
	}
	at, err := x.hashedAt(ctx, revision)
	if err != nil {
		return nil, err
	}
	dead, err := x.superseded(ctx, 0, at)
	return &Hashed{x, dead}, err
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

// Rows calls f with the rows of the revisions above after, up to until, in the order in which they were written, with
// the digests of their values. Several parts may be read concurrently. f must not keep the row after it returns.
// Errors: those of [Export.Rows].
func (h *Hashed) Rows(ctx context.Context, after, until int64, f func(*backend.Digested) error) error {
	chunk := chunkFirst
	var rows []backend.Digested
	for after < until {
		part, err := h.x.digests(ctx, backend.DigestQuery{After: after, Until: until, Limit: chunk, Into: rows})
		if err != nil {
			return err
		}
		gone, err := h.dead.among(ctx, len(part.Rows), func(i int) *backend.Row { return &part.Rows[i].Row })
		if err != nil {
			return err
		}
		for i := range part.Rows {
			d := &part.Rows[i]
			if gone.next(&d.Row) || d.Row.Deleted && d.Row.ModRevision <= h.x.Compacted {
				continue
			}
			if err := f(d); err != nil {
				return err
			}
		}
		chunk = min(2*chunk, digestChunk)
		after, rows = part.Through, part.Rows
	}
	return nil
}

// digestChunk is how many rows are read at a time: few enough that they stay in the processor's cache.
const digestChunk = 1000

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
