package store

import "sync/atomic"

// residents bounds the bytes of the values that the index holds, by the clock algorithm: a hand goes round the items
// and evicts those that nobody has read since it last came by, or one of many that all were. Guarded by index.mu, but
// for the items' touched marks.
type residents struct {
	max   int64
	bytes int64
	ring  []*item
	hand  int
}

func (r *residents) cost(it *item) int64 { return int64(len(it.Value)) }

// average is about how large a value is, 0 where there is none.
func (r *residents) average() int64 {
	if len(r.ring) == 0 {
		return 0
	}
	return r.bytes / int64(len(r.ring))
}

// room says whether it fits without pushing another out.
func (r *residents) room(it *item) bool { return r.bytes+r.cost(it) <= r.max }

func (r *residents) add(it *item) {
	if !it.resident {
		return
	}
	it.slot = int32(len(r.ring))
	r.ring = append(r.ring, it)
	r.bytes += r.cost(it)
}

// replace puts it in old's place: a newer version of a key is as warm as the one before.
func (r *residents) replace(old, it *item) {
	if old.slot < 0 || !it.resident {
		r.remove(old)
		r.add(it)
		return
	}
	r.bytes += r.cost(it) - r.cost(old)
	it.slot, old.slot = old.slot, -1
	r.ring[it.slot] = it
}

func (r *residents) remove(it *item) {
	if it.slot < 0 {
		return
	}
	last := len(r.ring) - 1
	moved := r.ring[last]
	r.ring[it.slot], moved.slot = moved, it.slot
	r.ring[last] = nil
	r.ring = r.ring[:last]
	r.bytes -= r.cost(it)
	it.slot = -1
}

// evictLooks bounds the items that the hand passes over for one that it evicts: after a list of everything all have
// been read, and a hand that went round all of them would hold up whoever writes next, and everybody behind the index's
// lock.
const evictLooks = 64

// evict brings the bytes below the bound by evicting up to most items; more says that it takes more.
func (r *residents) evict(x *index, most int) (more bool) {
	for looks := 0; r.bytes > r.max && len(r.ring) > 0; looks++ {
		if most == 0 {
			return true
		}
		if r.hand >= len(r.ring) {
			r.hand = 0
		}
		it := r.ring[r.hand]
		if atomic.SwapUint32(&it.touched, 0) == 1 && looks < evictLooks {
			r.hand++
			continue
		}
		looks = 0
		most--
		r.remove(it)
		bare := &item{Row: it.Row, slot: -1}
		bare.Value = nil
		x.tree.Set(keyString(bare.Key), bare)
	}
	return false
}

// touch marks it as read.
func (it *item) touch() {
	if atomic.LoadUint32(&it.touched) == 0 {
		atomic.StoreUint32(&it.touched, 1)
	}
}
