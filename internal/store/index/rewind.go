package index

import (
	"cmp"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Rewind makes a snapshot of an older revision out of the current rows: it undoes the changes since. [Index.NewRewind]
// begins it, Undo collects the changes, and [Index.Add] ends it.
type Rewind struct {
	from  Position
	rev   int64
	tree  *Tree
	bytes int64 // that it keeps alive besides the index's own
	seen  map[string]struct{}
	old   []*Item
}

// Since returns how many revisions came after revision. It returns 0 if the index is not complete, has a snapshot of
// the revision, or is not above it.
func (x *Index) Since(revision int64) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete || revision < x.compacted || x.snapshotAt(revision) != nil {
		return 0
	}
	return max(0, x.rev-revision)
}

// NewRewind begins a snapshot of revision, and returns the position of the rows that it begins with. It returns nil if
// the index is not complete, has the revision already, or is not above it.
func (x *Index) NewRewind(revision int64) (*Rewind, Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := Position{Clock: x.clock(), Complete: x.complete, Generation: x.generation}
	if !x.complete || revision >= x.rev || revision < x.compacted || x.snapshotAt(revision) != nil {
		return nil, at
	}
	return &Rewind{from: at, rev: revision, tree: x.tree.copy(), seen: map[string]struct{}{}}, at
}

// Undo undoes a change above the snapshot's revision. The changes must come in the order in which they were written. It
// returns false if the row that the change superseded is missing.
func (r *Rewind) Undo(c *backend.Change) bool {
	key := KeyString(c.Row.Key)
	if _, ok := r.seen[key]; ok {
		return true // an earlier change of the key has superseded what it had then
	}
	r.seen[key] = struct{}{}
	switch {
	case c.Row.PrevRevision == 0:
		r.tree.Delete(key)
	case c.Prev == nil || c.Prev.ModRevision > r.rev:
		return false
	default:
		it := NewBareItem(*c.Prev)
		r.tree.Set(it)
		r.old = append(r.old, it)
		r.bytes += int64(len(it.Key)) + ItemBytes
	}
	return true
}

// Old returns the ids of the rows that are not in the index, in the order in which they were written.
func (r *Rewind) Old() []backend.RowID {
	slices.SortFunc(r.old, func(a, b *Item) int {
		return cmp.Or(cmp.Compare(a.ModRevision, b.ModRevision), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	ids := make([]backend.RowID, len(r.old))
	for i, it := range r.old {
		ids[i] = it.ID()
	}
	return ids
}

// Values sets the values of the first rows of Old. It returns false if one of rows is another row.
func (r *Rewind) Values(rows []backend.Row) bool {
	for i := range rows {
		if !r.old[i].Is(&rows[i]) {
			return false
		}
		r.tree.Set(NewItem(rows[i]))
		r.bytes += int64(len(rows[i].Value))
	}
	return true
}

// Add adds the snapshot that r has made, unless the index was reset, or has compacted the revision, since r began.
func (x *Index) Add(r *Rewind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.generation != r.from.Generation || r.rev < x.compacted || x.snapshotAt(r.rev) != nil {
		return
	}
	x.evictSnapshots()
	snap := &Snapshot{rev: r.rev, createdAt: time.Now(), bytes: r.bytes}
	snap.tree.Store(r.tree)
	at := len(x.snapshots)
	if at > 0 && x.snapshots[at-1].rev == x.rev {
		at-- // that of the current revision stays the last
	}
	x.snapshots = slices.Insert(x.snapshots, at, snap)
}
