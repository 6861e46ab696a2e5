package index

import (
	"container/heap"
	"context"
)

// waiter waits until a revision is published.
type waiter struct {
	revision int64
	reached  chan struct{}
	place    int // in the heap, -1 when it is not there any more
}

// waiters are a heap: what is published concerns the one that waits for the least revision, and no other unless that
// one is reached.
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

// Await returns when the index is at revision, with the revision that it is at then; reached is false when ctx ended
// before, or stop was closed.
func (x *Index) Await(ctx context.Context, stop <-chan struct{}, revision int64) (current int64, reached bool) {
	w := &waiter{revision: revision, reached: make(chan struct{})}
	x.mu.Lock()
	heap.Push(&x.awaited, w)
	x.awaited.reach(x.rev) // published meanwhile
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

// reach wakes those who wait for rev or less.
func (w *waiters) reach(rev int64) {
	for len(*w) > 0 && (*w)[0].revision <= rev {
		close(heap.Pop(w).(*waiter).reached)
	}
}
