package store

import (
	"container/list"
	"slices"
)

// fairQueue holds what waits for a permit or for memory. Each caller has a queue of its own, and these are served in
// turn, however much each caller asks for.
type fairQueue struct {
	waiting map[any]*list.List // waiters by caller; no list is empty
	callers []any              // the keys of waiting
	next    int                // index in callers
}

// waiter is an entry of a caller's queue.
type waiter struct {
	caller  any
	bytes   int64         // of the result that needs the memory, as far as it is known
	at      *list.Element // nil once it has left the queue
	granted chan struct{} // closed when it gets what it waits for
}

// push puts p at the end of its caller's queue.
func (q *fairQueue) push(p *waiter) {
	queue := q.waiting[p.caller]
	if queue == nil {
		if q.waiting == nil {
			q.waiting = map[any]*list.List{}
		}
		queue = list.New()
		q.waiting[p.caller] = queue
		q.callers = append(q.callers, p.caller)
	}
	p.at = queue.PushBack(p)
}

// pop removes and returns the first waiter of the next caller, of those that may leave, nil if there is none. If may is
// nil, every waiter may leave.
func (q *fairQueue) pop(may func(*waiter) bool) *waiter {
	for range q.callers {
		q.next %= len(q.callers)
		p := q.waiting[q.callers[q.next]].Front().Value.(*waiter)
		if may != nil && !may(p) {
			q.next++
			continue
		}
		if last := q.remove(p); !last {
			q.next++
		}
		return p
	}
	return nil
}

// remove removes p from its queue and reports whether it was the last one there.
func (q *fairQueue) remove(p *waiter) (last bool) {
	queue := q.waiting[p.caller]
	queue.Remove(p.at)
	p.at = nil
	if queue.Len() > 0 {
		return false
	}
	delete(q.waiting, p.caller)
	i := slices.Index(q.callers, p.caller)
	q.callers = slices.Delete(q.callers, i, i+1)
	if i < q.next {
		q.next--
	}
	return true
}

// others reports whether a caller other than the given one waits, or might: nil stands for all callers that cannot be
// told apart.
func (q *fairQueue) others(than any) bool {
	return len(q.callers) > 1 || len(q.callers) == 1 && (q.callers[0] != than || than == nil)
}
