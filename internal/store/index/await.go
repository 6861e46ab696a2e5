package index

import (
	"container/heap"
	"context"
)

// waiter waits until a revision is published.
type waiter struct {
	revision int64
	reached  chan struct{}
	place    int // in the heap, -1 after removal
}

// waiters is a heap ordered by revision: a publication only has to examine the waiter with the lowest revision, and
// the next one if that is reached.
type waiters []*waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].revision < w[j].revision }

func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

func (w *waiters) Push(x any) {
	n := x.(*waiter)
	n.place = len(*w)
	*w = append(*w, n)
}

func (w *waiters) Pop() any {
	last := len(*w) - 1
	n := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	n.place = -1
	return n
}

// Await waits until the index is at revision or above. current is the revision of the index on return; reached is false
// if ctx ended or stop was closed first.
func (x *Index) Await(ctx context.Context, stop <-chan struct{}, revision int64) (current int64, reached bool) {
	w := &waiter{revision: revision, reached: make(chan struct{})}
	x.mu.Lock()
	heap.Push(&x.awaited, w)
	x.awaited.reach(x.rev) // it may be published already
	x.mu.Unlock()
	select {
	case <-w.reached:
		return x.Position().Revision, true
	case <-ctx.Done():
	case <-stop:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.place >= 0 {
		heap.Remove(&x.awaited, w.place)
	}
	return x.rev, false
}

// reach wakes the waiters for rev and below.
func (w *waiters) reach(rev int64) {
	for len(*w) > 0 && (*w)[0].revision <= rev {
		close(heap.Pop(w).(*waiter).reached)
	}
}
