package store

import (
	"container/heap"
	"time"
)

// leaseOrder is a heap of leases; the first one is the next to check.
type leaseOrder []*lease

// move changes the time at which a lease is checked.
func (o *leaseOrder) move(le *lease, checkAt time.Time) {
	le.checkAt = checkAt
	heap.Fix(o, le.place)
}

// Len implements [heap.Interface].
func (o leaseOrder) Len() int { return len(o) }

// Less implements [heap.Interface].
func (o leaseOrder) Less(i, j int) bool { return o[i].checkAt.Before(o[j].checkAt) }

// Swap implements [heap.Interface].
func (o leaseOrder) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push implements [heap.Interface].
func (o *leaseOrder) Push(x any) {
	le := x.(*lease)
	le.place = len(*o)
	*o = append(*o, le)
}

// Pop implements [heap.Interface].
func (o *leaseOrder) Pop() any {
	old := *o
	n := len(old) - 1
	le := old[n]
	old[n] = nil
	*o = old[:n]
	return le
}
