package store

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// Comparison is the result of comparing the keys in memory with the rows of the database.
type Comparison struct {
	Revision, Compacted int64
	// Rows is how many rows were read, and Keys is how many keys in memory were compared with them.
	Rows, Keys int64
}

// CompareDatabase reads all rows, verifies all of them but their values against their checksums, as
// [backend.Backend.Digests] does, and compares the keys in memory with them. If all replicas of a database match it,
// they match each other. Damage and differences raise the CORRUPT alarm. Errors: [backend.ErrCorrupt], those of
// [Export.Rows].
func (s *Store) CompareDatabase(ctx context.Context) (Comparison, error) {
	x, err := s.export(ctx, true)
	if err != nil {
		return Comparison{}, fmt.Errorf("compare: %w", err)
	}
	defer x.Close()
	c := comparison{x: x, seed: maphash.MakeSeed(), unmatched: map[uint64]struct{}{}}
	var clock backend.Clock
	c.tree, clock = s.index.Now() // not before the rows are pinned
	x.Revision = max(x.Revision, clock.Revision)
	c.result = Comparison{Revision: x.Revision, Compacted: x.Compacted}
	var rows []backend.Digested
	for after := int64(0); after < c.result.Revision; {
		part, err := x.digests(ctx, backend.DigestQuery{
			After: after, Until: c.result.Revision, Limit: digestChunk, Into: rows,
		})
		if err != nil {
			return c.result, fmt.Errorf("compare: %w", err)
		}
		for i := range part.Rows {
			if err := c.row(&part.Rows[i].Row, part.Purged); err != nil {
				return c.result, s.corruption.noticed(err)
			}
		}
		after, rows = part.Through, part.Rows
	}
	if err := c.ended(); err != nil {
		return c.result, s.corruption.noticed(err)
	}
	s.corruption.mended()
	return c.result, nil
}

// comparison compares the rows, in the order in which they were written, with the newest ones in memory.
type comparison struct {
	x      *Export
	tree   *index.Tree // nil if not all keys are in memory
	result Comparison
	seed   maphash.Seed
	// unmatched has the hashes of keys that are not in memory, and of which a row was the newest at the compacted
	// revision or is above it. A tombstone must follow, which is not purged before the export is closed.
	unmatched map[uint64]struct{}
}

// differs is [backend.ErrCorrupt] for a key in memory that does not match the database.
func differs(format string, args ...any) error {
	return fmt.Errorf("%w: the keys in memory differ from its rows: %s; restart this server, and verify the database "+
		"with 'sqlstore check'", backend.ErrCorrupt, fmt.Sprintf(format, args...))
}

// row compares the next row. When it was read, rows had been purged up to the given revision.
func (c *comparison) row(r *backend.Row, purged int64) error {
	c.result.Rows++
	if c.tree == nil {
		return nil
	}
	it, ok := c.tree.Get(index.KeyString(r.Key))
	switch {
	case ok && it.ID() == r.ID():
		if r.Deleted || !it.Is(r) {
			return differs("key %q at revision %d", r.Key[:min(len(r.Key), 256)], r.ModRevision)
		}
		c.result.Keys++
	case ok && it.ID().Compare(r.ID()) < 0:
		return differs("key %q is at revision %d, and not at %d", r.Key[:min(len(r.Key), 256)], it.ModRevision,
			r.ModRevision)
	case ok:
	case r.Deleted:
		delete(c.unmatched, maphash.Bytes(c.seed, r.Key))
	case r.ModRevision > c.x.Compacted, r.ModRevision < c.x.Compacted && c.x.Compacted <= purged:
		c.unmatched[maphash.Bytes(c.seed, r.Key)] = struct{}{}
	}
	return nil
}

// ended is called after the last row.
func (c *comparison) ended() error {
	switch {
	case c.tree == nil:
		return nil
	case len(c.unmatched) > 0:
		return differs("keys are missing: %d", len(c.unmatched))
	case c.result.Keys != int64(c.tree.Len()):
		return differs("keys have no row: %d", int64(c.tree.Len())-c.result.Keys)
	}
	return nil
}
