package store

import (
	"container/list"
	"slices"
)

// lines hold what waits for a turn or for room. Each caller has a line of its own, so that callers take turns however
// much each of them asks for.
type lines struct {
	waiting map[any]*list.List // of *place by caller; none is empty
	callers []any              // those in waiting
	next    int                // in callers
}

// place is a place in a caller's line.
type place struct {
	caller any
	bytes  int64         // of the result that the room is for
	at     *list.Element // nil when it has left
	given  chan struct{} // closed with what it waits for
}

// join puts p at the end of its caller's line.
func (l *lines) join(p *place) {
	line := l.waiting[p.caller]
	if line == nil {
		if l.waiting == nil {
			l.waiting = map[any]*list.List{}
		}
		line = list.New()
		l.waiting[p.caller] = line
		l.callers = append(l.callers, p.caller)
	}
	p.at = line.PushBack(p)
}

// leave takes the first place out of the line of the next caller that may leave; it returns nil when there is none. A
// nil may lets everyone leave.
func (l *lines) leave(may func(caller any) bool) *place {
	for range l.callers {
		l.next %= len(l.callers)
		caller := l.callers[l.next]
		if may != nil && !may(caller) {
			l.next++
			continue
		}
		p := l.waiting[caller].Front().Value.(*place)
		if last := l.remove(p); !last {
			l.next++
		}
		return p
	}
	return nil
}

// remove takes p out of its line, and says whether it was the last one there.
func (l *lines) remove(p *place) (last bool) {
	line := l.waiting[p.caller]
	line.Remove(p.at)
	p.at = nil
	if line.Len() > 0 {
		return false
	}
	delete(l.waiting, p.caller)
	i := slices.Index(l.callers, p.caller)
	l.callers = slices.Delete(l.callers, i, i+1)
	if i < l.next {
		l.next--
	}
	return true
}

// others says whether somebody else than a caller waits, or may do: nil are all that cannot be distinguished.
func (l *lines) others(than any) bool {
	return len(l.callers) > 1 || len(l.callers) == 1 && (l.callers[0] != than || than == nil)
}
