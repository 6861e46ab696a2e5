package index

import "math"

// applyAtOnce bounds the rows that are applied while reads wait. A larger batch is applied to a copy of the tree, so
// that reads wait only while the copy replaces the tree; the lease keys and the value cache follow in parts.
const applyAtOnce = 4096

// Apply publishes the rows of one committed batch, which ends at revision rev. compacted is the clock's compacted
// revision, 0 if it has not moved.
func (x *Index) Apply(items []*Item, rev, compacted int64) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if x.complete && len(items) > applyAtOnce {
		x.applyMany(items, rev, compacted)
		return
	}
	bytes := bytesOf(items)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.disabled {
		for _, it := range items {
			var old *Item
			if it.Deleted {
				old = x.remove(it.Key)
			} else {
				old = x.set(it)
			}
			if x.complete {
				x.changeLogs.add(&it.Row, old)
			}
		}
		x.cache.evict(x, len(x.cache.ring))
	}
	x.move(rev, compacted, bytes)
	x.undo.spare = x.cache.free()
	x.changeLogs.commit(x.compacted)
}

// move finishes an apply: it advances the revision and the compacted revision, wakes waiters and prunes snapshots.
// Callers hold writing and mu.
func (x *Index) move(rev, compacted, bytes int64) {
	x.rev = max(x.rev, rev)
	if EtcdCompacted(compacted) > EtcdCompacted(x.compacted) {
		x.compacted = compacted
	}
	x.awaited.reach(x.rev)
	x.prune(bytes)
}

func bytesOf(items []*Item) (bytes int64) {
	for _, it := range items {
		bytes += int64(len(it.Key)+len(it.Value)) + ItemBytes
	}
	return bytes
}

// applyMany applies a large batch to a complete index. Meanwhile the recorded keys of a lease are a superset of those
// that the tree has for it, never a subset: code that reads them checks the tree. Callers hold writing.
func (x *Index) applyMany(items []*Item, rev, compacted int64) {
	x.mu.Lock()
	state := x.tree.copy()
	x.applying = true
	x.mu.Unlock()
	before := make([]*Item, len(items))
	for i, it := range items {
		if it.Deleted {
			before[i], _ = state.Delete(KeyString(it.Key))
		} else {
			before[i], _ = state.Set(it)
		}
	}
	x.inParts(len(items), func(i int) { x.attach(items[i]) })
	bytes := bytesOf(items)
	began := x.rev
	changes := newChangeLogs(began, x.cache.max)
	changes.undo.spare = x.cache.free()
	for i, it := range items {
		changes.add(&it.Row, before[i])
		changes.trim(0, math.MaxInt)
	}
	x.mu.Lock()
	x.tree = state
	x.move(rev, compacted, bytes)
	x.changeLogs.append(&changes, began)
	x.mu.Unlock()
	x.trimChanges()
	x.inParts(len(items), func(i int) { x.follow(before[i], items[i]) })
	x.mu.Lock()
	x.applying = false
	x.mu.Unlock()
	for more := true; more; {
		x.mu.Lock()
		more = x.cache.evict(x, applyAtOnce)
		x.mu.Unlock()
	}
	x.trimChanges() // the cache has less space free than before
}

// trimChanges trims the logs of changes, a part at a time.
func (x *Index) trimChanges() {
	for more := true; more; {
		x.mu.Lock()
		x.undo.spare = x.cache.free()
		more = x.changeLogs.trim(x.compacted, applyAtOnce)
		x.mu.Unlock()
	}
}

// inParts calls do n times under mu, and releases mu every applyAtOnce calls so that others can take it.
func (x *Index) inParts(n int, do func(i int)) {
	for i := 0; i < n; {
		x.mu.Lock()
		for end := min(n, i+applyAtOnce); i < end; i++ {
			do(i)
		}
		x.mu.Unlock()
	}
}

// set makes it the newest row of its key, and returns the previous one. Callers hold writing and mu.
func (x *Index) set(it *Item) (old *Item) {
	key := KeyString(it.Key)
	old, _ = x.tree.Set(it)
	if !x.complete {
		delete(x.deleted, key)
	}
	x.follow(old, it)
	return old
}

// remove removes the newest row of a key, and returns it. Callers hold writing and mu.
func (x *Index) remove(k []byte) (old *Item) {
	key := KeyString(k)
	if !x.complete {
		x.deleted[key] = struct{}{}
	}
	old, ok := x.tree.Delete(key)
	if ok {
		x.detach(old, 0)
		x.cache.remove(old)
	}
	return old
}

// follow updates the leases and the value cache after a change of the tree: it has replaced old, or is new if old is
// nil.
func (x *Index) follow(old, it *Item) {
	if old != nil {
		x.detach(old, it.Lease)
	}
	switch {
	case it.Deleted && old != nil:
		x.cache.remove(old)
	case it.Deleted:
	case old != nil:
		x.cache.replace(old, it)
	default:
		x.cache.add(it)
	}
	x.attach(it)
}
