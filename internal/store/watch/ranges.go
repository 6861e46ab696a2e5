package watch

import (
	"cmp"
	"strings"

	"go.etcd.io/etcd/pkg/v3/adt"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// ranges finds the watches of the ranges that contain a key. Guarded by hub.mu. A look-up is part of every publication,
// so it reuses the interval that it searches for.
type ranges struct {
	tree       adt.IntervalTree // values are watchers
	from, next bound            // of the key being looked up
	event      *event           // being staged
	visit      adt.IntervalVisitor
}

// bound is where an interval of keys starts or ends. Pointers to it compare without an allocation, as slices of bytes
// would not.
type bound struct {
	key   string
	after bool // just behind key
	last  bool // behind every key
}

// Compare implements [adt.Comparable].
func (b *bound) Compare(c adt.Comparable) int {
	o := c.(*bound)
	if b.last || o.last {
		return order(b.last, o.last)
	}
	return cmp.Or(strings.Compare(b.key, o.key), order(b.after, o.after))
}

// order compares false and true, which is greater.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func newRanges() *ranges {
	r := &ranges{tree: adt.NewIntervalTree(), next: bound{after: true}}
	r.visit = func(n *adt.IntervalValue) bool {
		for w := range n.Val.(watchers) {
			w.stage(r.event)
		}
		return true
	}
	return r
}

// stage adds an event to the watches of the ranges that contain its key.
func (r *ranges) stage(e *event) {
	if r.tree.Len() == 0 {
		return
	}
	key := index.KeyString(e.item.Key)
	r.event, r.from.key, r.next.key = e, key, key
	r.tree.Visit(adt.Interval{Begin: &r.from, End: &r.next}, r.visit)
	r.event, r.from.key, r.next.key = nil, "", "" // nothing of the event may stay in memory
}

func (r *ranges) add(w *watcher) {
	ivl := interval(w.span)
	if found := r.tree.Find(ivl); found != nil {
		found.Val.(watchers)[w] = struct{}{}
		return
	}
	r.tree.Insert(ivl, watchers{w: {}})
}

func (r *ranges) remove(w *watcher) {
	ivl := interval(w.span)
	found := r.tree.Find(ivl)
	if found == nil {
		return
	}
	set := found.Val.(watchers)
	delete(set, w)
	if len(set) == 0 {
		r.tree.Delete(ivl)
	}
}

func interval(s index.Span) adt.Interval {
	return adt.Interval{Begin: &bound{key: s.Start}, End: &bound{key: s.End, last: s.Open}}
}
