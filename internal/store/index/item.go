package index

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/sqlstore/sqlstore/backend"
)

// ItemBytes is the memory an item takes, in bytes, besides its key and value.
const ItemBytes = 112

// Item is a row in the index. Everything except the cache bookkeeping is immutable. An evicted or reloaded value makes
// a new item under the same key, so holders of the old item are not disturbed.
type Item struct {
	backend.Row
	cached  bool   // Value is the row's value (otherwise it must be fetched by the row's id)
	slot    int32  // place in the value cache, -1 if it has none; guarded by the index's lock
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

// Cached reports whether the item has the row's value.
func (it *Item) Cached() bool { return it.cached }

// Touch marks the item as read, for eviction from the value cache.
func (it *Item) Touch() {
	if atomic.LoadUint32(&it.touched) == 0 {
		atomic.StoreUint32(&it.touched, 1)
	}
}

// Is reports whether r is the row the item was made from, as far as that can be told without the value.
func (it *Item) Is(r *backend.Row) bool {
	return slices.Equal(it.Key, r.Key) && it.CreateRevision == r.CreateRevision && it.PrevRevision == r.PrevRevision &&
		it.Version == r.Version && it.Lease == r.Lease
}

// KeyString returns key as a string without copying it. This is safe because the keys of rows never change.
func KeyString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// KeyBytes returns a key of the index as bytes without copying it. They must not change.
func KeyBytes(key string) []byte { return unsafe.Slice(unsafe.StringData(key), len(key)) }
