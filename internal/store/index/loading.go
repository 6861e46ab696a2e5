package index

import "github.com/sqlstore/sqlstore/backend"

// Loading collects the newest row of each key at a revision, for [Index.Fill].
type Loading struct {
	generation int
	revision   int64
	tree       *Tree // with tombstones
}

// NewLoading returns an empty loading at the index's current position, and that position.
func (x *Index) NewLoading() (*Loading, Position) {
	at := x.Position()
	return &Loading{generation: at.Generation, revision: at.Revision, tree: NewTree()}, at
}

// Add adds a row. It may be any version of its key, and rows may come in any order.
func (l *Loading) Add(r *backend.Row) {
	if r.ModRevision > l.revision {
		return
	}
	if old, ok := l.tree.Get(KeyString(r.Key)); ok && newer(old, r) {
		return
	}
	l.tree.Set(NewBareItem(*r))
}

func newer(it *Item, r *backend.Row) bool {
	return it.ModRevision > r.ModRevision || it.ModRevision == r.ModRevision && it.Ordinal > r.Ordinal
}

// live removes the tombstones, and returns the items with leases.
func (l *Loading) live() (leased []*Item) {
	var deleted []string
	l.tree.keys().Scan(func(key string, it *Item) bool {
		switch {
		case it.Deleted:
			deleted = append(deleted, key)
		case it.Lease != 0:
			leased = append(leased, it)
		}
		return true
	})
	for _, key := range deleted {
		l.tree.Delete(key)
	}
	return leased
}

// Fill completes the index with what l has collected, except for keys of which the index has something newer. It
// returns false if the index was reset since the loading began. l must not be used afterwards.
func (x *Index) Fill(l *Loading) bool {
	leased := l.live()
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case l.generation != x.generation:
		return false
	case x.complete: // by another load; later deletes are not remembered
		return true
	}
	x.tree.keys().Scan(func(_ string, it *Item) bool {
		l.tree.Set(it)
		return true
	})
	for key := range x.deleted {
		l.tree.Delete(key)
	}
	x.tree = l.tree
	for _, it := range leased {
		if is, ok := x.tree.Get(KeyString(it.Key)); ok && is == it {
			x.attach(it)
		}
	}
	x.completed()
	return true
}
