package store

import (
	"context"
	"fmt"
	"hash/maphash"

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
	gone *versions
}

// Hashed returns the rows to hash for a revision. They can be read until x is closed. Errors: [ErrCompacted] and
// [ErrFutureRevision] for a revision that cannot be read, those of [Export.Rows].
func (x *Export) Hashed(ctx context.Context, revision int64) (*Hashed, error) {
	if err := (backend.Clock{Revision: x.Revision, Compacted: x.Compacted}).Check(revision); err != nil {
		return nil, err
	}
	gone, err := x.goneAt(ctx, revision)
	return &Hashed{x, gone}, err
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
		for i := range part.Rows {
			d := &part.Rows[i]
			gone, err := h.left(ctx, &d.Row, part.Purged)
			if err == nil && !gone {
				err = f(d)
			}
			if err != nil {
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

// left reports whether etcd leaves a row out. When the row was read, rows had been purged up to the given revision.
func (h *Hashed) left(ctx context.Context, r *backend.Row, purged int64) (bool, error) {
	if r.ModRevision > h.x.Compacted {
		return false, nil
	}
	if r.Deleted || h.gone.has(r.ModRevision, r.Key) {
		return true, nil
	}
	if r.ModRevision < h.x.Compacted && h.x.Compacted <= purged {
		return false, nil // looking up each key costs as much as all the rest
	}
	return h.x.superseded(ctx, r)
}

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

// goneAt returns the rows at or below the compacted revision that later ones supersede, up to a revision; none if no
// key exists at that revision.
func (x *Export) goneAt(ctx context.Context, revision int64) (*versions, error) {
	gone := &versions{seed: maphash.MakeSeed(), all: map[version]struct{}{}}
	if x.Compacted <= 0 || revision == x.Compacted {
		return gone, nil
	}
	existing, clock, err := x.s.backend.Range(ctx, backend.RangeQuery{
		Span: index.Span{Open: true}.Backend(), Revision: revision, Limit: 1, KeysOnly: true, Pin: x.shared,
	})
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := x.check(clock); err != nil || len(existing) == 0 {
		return gone, err
	}
	for after := x.Compacted; after < revision; {
		hist, err := x.history(ctx, backend.HistoryQuery{
			After: after, Until: revision, Limit: readChunk, KeysOnly: true,
		})
		if err != nil {
			return nil, err
		}
		for i := range hist.Changes {
			if r := &hist.Changes[i].Row; r.PrevRevision > 0 && r.PrevRevision <= x.Compacted {
				gone.add(r.PrevRevision, r.Key)
			}
		}
		after = hist.Through
	}
	return gone, nil
}

// versions is a set of rows. Only rows of the same transaction could be mistaken for each other, if their keys have the
// same 64-bit hash.
type versions struct {
	seed maphash.Seed
	all  map[version]struct{}
}

type version struct {
	revision int64
	key      uint64
}

func (v *versions) add(revision int64, key []byte) {
	v.all[version{revision, maphash.Bytes(v.seed, key)}] = struct{}{}
}

func (v *versions) has(revision int64, key []byte) bool {
	_, ok := v.all[version{revision, maphash.Bytes(v.seed, key)}]
	return ok
}
