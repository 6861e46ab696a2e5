package index

import "slices"

// CountLeaseKeys returns how many keys of a lease are in the index, and whether the index is complete.
func (x *Index) CountLeaseKeys(id int64) (n int, complete bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.leases[id]), x.complete
}

// AppendLeaseKeys appends up to limit keys of a lease that are in the index, in no particular order.
func (x *Index) AppendLeaseKeys(keys []string, id int64, limit int) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.appendLeaseKeys(keys, id, limit)
}

// appendLeaseKeys is AppendLeaseKeys for callers that hold mu.
func (x *Index) appendLeaseKeys(keys []string, id int64, limit int) []string {
	keys = slices.Grow(keys, min(limit, len(x.leases[id])))
	for key := range x.leases[id] {
		if x.applying { // looking at the tree takes much longer
			if it, ok := x.tree.Get(key); !ok || it.Lease != id {
				continue
			}
		}
		if limit--; limit < 0 {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// LeaseKeys returns the keys of a lease, in no particular order, and the revision they belong to. ok is false while the
// index is not complete.
func (x *Index) LeaseKeys(id int64) (keys []string, revision int64, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.appendLeaseKeys(nil, id, len(x.leases[id])), x.rev, x.complete
}

// attach records that it's key belongs to its lease.
func (x *Index) attach(it *Item) {
	if it.Lease == 0 {
		return
	}
	keys := x.leases[it.Lease]
	if keys == nil {
		keys = map[string]struct{}{}
		x.leases[it.Lease] = keys
	}
	keys[KeyString(it.Key)] = struct{}{}
}

// detach removes old's key from old's lease, unless the key's next row or its newest row has the same lease: a large
// batch may move a key to another lease and back.
func (x *Index) detach(old *Item, lease int64) {
	if old.Lease == 0 || old.Lease == lease {
		return
	}
	if is, ok := x.tree.Get(KeyString(old.Key)); ok && is.Lease == old.Lease {
		return
	}
	keys := x.leases[old.Lease]
	delete(keys, KeyString(old.Key))
	if len(keys) == 0 {
		delete(x.leases, old.Lease)
	}
}
