package store

import (
	"container/list"
	"slices"
)

// lines holds what waits for a turn or for room. Each caller has its own line, so callers take turns however much each
// of them asks for.
type lines struct {
	waiting map[any]*list.List // places by caller; no list is empty
	callers []any              // the keys of waiting
	next    int                // index in callers
}

// place is a place in a caller's line.
type place struct {
	caller any
	bytes  int64         // of the result that needs the room
	at     *list.Element // nil once it has left the line
	given  chan struct{} // closed when it gets what it waits for
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

// leave removes and returns the first place of the next caller that may leave, nil if there is none. If may is nil,
// every caller may leave.
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

// remove removes p from its line and reports whether it was the last one there.
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

// others reports whether a caller other than the given one waits, or might: nil stands for all callers that cannot be
// told apart.
func (l *lines) others(than any) bool {
	return len(l.callers) > 1 || len(l.callers) == 1 && (l.callers[0] != than || than == nil)
}
