package index

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sqlstore/sqlstore/backend"
)

// ItemBytes is what an item takes besides its key and value.
const ItemBytes = 112

// Item is a row in the index. Everything but the cache bookkeeping is immutable; an evicted or reloaded value is a new
// item under the same key, so that whoever holds the old one is not disturbed.
type Item struct {
	backend.Row
	cached  bool   // Value is the row's value (else it must be fetched by the row's id)
	slot    int32  // place in the value cache, -1 when it is not there; guarded by the index's lock
	touched uint32 // set by readers, cleared by the eviction hand; atomic
}

// NewItem returns an item with the row's value.
func NewItem(r backend.Row) *Item { return &Item{Row: r, cached: true, slot: -1} }

// NewBareItem returns an item without the row's value, which must be fetched.
func NewBareItem(r backend.Row) *Item {
	it := &Item{Row: r, slot: -1}
	it.Value = nil
	return it
}

// Cached says whether the item has the row's value.
func (it *Item) Cached() bool { return it.cached }

// Touch marks the item as read, for the value cache.
func (it *Item) Touch() {
	if atomic.LoadUint32(&it.touched) == 0 {
		atomic.StoreUint32(&it.touched, 1)
	}
}

// Is says whether r is the row that the item was made of, as far as that is known without the value.
func (it *Item) Is(r *backend.Row) bool {
	return slices.Equal(it.Key, r.Key) && it.CreateRevision == r.CreateRevision && it.PrevRevision == r.PrevRevision &&
		it.Version == r.Version && it.Lease == r.Lease
}

// KeyString returns key as a string without a copy; rows' keys never change.
func KeyString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }
