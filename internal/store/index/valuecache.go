package index

import "sync/atomic"

// valueCache bounds the bytes of the values that the index holds, by the clock algorithm: a hand goes round the items
// and evicts those not read since it last passed. If it passes many in a row that were all read, it evicts one anyway.
// Guarded by index.mu, except for the items' touched marks.
type valueCache struct {
	max   int64
	bytes int64
	ring  []*Item
	hand  int
}

func (c *valueCache) cost(it *Item) int64 { return int64(len(it.Value)) }

// average returns the average size of a cached value in bytes, 0 if there is none.
func (c *valueCache) average() int64 {
	if len(c.ring) == 0 {
		return 0
	}
	return c.bytes / int64(len(c.ring))
}

// fits reports whether it fits without evicting another value.
func (c *valueCache) fits(it *Item) bool { return c.cost(it) <= c.free() }

// free returns how many bytes of values fit without evicting others.
func (c *valueCache) free() int64 { return c.max - c.bytes }

func (c *valueCache) add(it *Item) {
	if !it.cached {
		return
	}
	it.slot = int32(len(c.ring))
	c.ring = append(c.ring, it)
	c.bytes += c.cost(it)
}

// replace puts it in old's place: a newer version of a key is as warm as the previous one.
func (c *valueCache) replace(old, it *Item) {
	if old.slot < 0 || !it.cached {
		c.remove(old)
		c.add(it)
		return
	}
	c.bytes += c.cost(it) - c.cost(old)
	it.slot, old.slot = old.slot, -1
	c.ring[it.slot] = it
}

func (c *valueCache) remove(it *Item) {
	if it.slot < 0 {
		return
	}
	last := len(c.ring) - 1
	moved := c.ring[last]
	c.ring[it.slot], moved.slot = moved, it.slot
	c.ring[last] = nil
	c.ring = c.ring[:last]
	c.bytes -= c.cost(it)
	it.slot = -1
}

// evictScans bounds the items that the hand passes for one that it evicts. After a list of everything, all items have
// been read. A hand that went round all of them would hold up the next writer, and everybody who waits for the index's
// lock.
const evictScans = 64

// evict brings the bytes within the bound by evicting up to most items. more is true if that was not enough.
func (c *valueCache) evict(x *Index, most int) (more bool) {
	for scanned := 0; c.bytes > c.max && len(c.ring) > 0; scanned++ {
		if most == 0 {
			return true
		}
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		it := c.ring[c.hand]
		if atomic.SwapUint32(&it.touched, 0) == 1 && scanned < evictScans {
			c.hand++
			continue
		}
		scanned = 0
		most--
		c.remove(it)
		x.tree.Set(NewBareItem(it.Row))
	}
	return false
}

// Warm replaces items of an epoch that lack their values with those of the index that have them in memory by now: a
// snapshot keeps the items it was made of. It returns how many values are still missing.
func (x *Index) Warm(items []*Item, epoch int64) (missing int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i, it := range items {
		if it == nil || it.cached {
			continue
		}
		// In another epoch, a different row may have the same id.
		if is, ok := x.tree.Get(KeyString(it.Key)); ok && is.cached && is.ID() == it.ID() && x.epoch == epoch {
			items[i] = is
			continue
		}
		missing++
	}
	return missing
}

// cacheOld is how many values of superseded rows are cached at a time. Each takes a search of the undo log.
const cacheOld = 256

// CacheValues adds fetched values of an epoch's items to the value cache, or to the undo log, as long as they fit:
// lists must not evict values that gets use. It does nothing while the index is being written.
func (x *Index) CacheValues(items []*Item, epoch int64) {
	if !x.writing.TryLock() {
		return
	}
	defer x.writing.Unlock()
	if x.cacheValues(items, epoch) {
		x.trimChanges() // the cache has less space free than before
	}
}

// cacheValues is CacheValues for callers that hold writing. It reports whether it added values to the value cache.
func (x *Index) cacheValues(items []*Item, epoch int64) (cached bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.epoch != epoch {
		return false
	}
	full, superseded := false, 0
	x.undo.spare = x.cache.free()
	for _, it := range items {
		old, ok := x.tree.Get(KeyString(it.Key))
		if !ok || old.ID() != it.ID() {
			if superseded++; superseded <= cacheOld {
				x.undo.setValue(it)
			}
			continue
		}
		if full = full || !x.cache.fits(it); full && (superseded >= cacheOld || x.undo.free() <= 0) {
			break
		}
		if full || old.cached {
			continue
		}
		it.Key, it.slot = old.Key, -1
		x.tree.Set(it)
		x.cache.add(it)
		cached = true
	}
	if n := len(x.snapshots); cached && n > 0 && x.snapshots[n-1].rev == x.rev {
		x.snapshots[n-1].tree.Store(x.tree.copy()) // the same rows, with the fetched values
	}
	return cached
}

// AverageValue returns the average size of the values in memory in bytes, 0 if there is none.
func (x *Index) AverageValue() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.cache.average()
}
