package world

import (
	"fmt"
	"math"
	"time"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// checkTime bounds the search for a linearization.
const checkTime = time.Minute

// check compares what clients saw with what happened, and returns what is wrong.
func (w *World) check() []string {
	ops := w.journal.Ops()
	for i, e := range w.eras {
		if err := w.checkEra(i, e, ops); err != nil {
			w.problems = append(w.problems, fmt.Sprintf("era %d, to %v: %v", i, e.ends, err))
		}
	}
	w.checkWatches()
	if len(w.eras) == 1 {
		w.checkLeases(w.eras[0].events)
	}
	return w.problems
}

// checkEra checks the requests of an era.
func (w *World) checkEra(i int, e era, ops []*history.Op) error {
	for _, event := range e.events {
		if err := w.refusals[event.Value]; err != nil && event.Value != "" {
			return fmt.Errorf("%+v exists, but the answer to its client was that it was not applied: %w", event, err)
		}
	}
	base := history.Base{}
	var events []history.Event
	to := max(1, e.fork)
	for _, event := range e.events {
		if event.Revision <= e.fork {
			base[event.Key] = event
		} else {
			events = append(events, event)
		}
		to = max(to, event.Revision)
	}
	if err := history.Order(base, events, max(1, e.fork), to); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	last := i == len(w.eras)-1
	var own []*history.Op
	for _, o := range ops {
		if o := within(o, e, last); o != nil {
			own = append(own, o)
		}
	}
	_, err := history.Answers(base, own, events, w.plan.bound(), checkTime)
	return err
}

// within returns what a request means for an era: nil if nothing. A write that was under way when the era began or
// ended, or that had no answer before, has an unknown outcome.
func within(o *history.Op, e era, last bool) *history.Op {
	inside := o.Start >= e.begins && (o.End <= e.ends || last)
	switch {
	case inside:
		return o
	case !o.Kind.Writes() || o.Start > e.ends:
		return nil
	case o.End < e.begins && o.Outcome != history.Unknown:
		return nil
	}
	c := *o
	c.Outcome, c.Revision, c.End = history.Unknown, 0, math.MaxInt64
	return &c
}

// checkWatches compares each part that a watch saw with the history of an era.
func (w *World) checkWatches() {
	for _, v := range w.watchers {
		for _, p := range v.parts {
			if err := w.checkPart(v.prefix, p); err != nil {
				w.problems = append(w.problems, fmt.Sprintf("watch of %q, stays %d, from revision %d after %v: %v",
					v.prefix, v.stays, p.from, p.at.Sub(w.began), err))
			}
		}
	}
}

// checkPart checks that there is an era whose history a part of a watch shows.
func (w *World) checkPart(prefix string, p *part) (err error) {
	for _, e := range w.eras {
		if err = history.Watch(p.events, of(e.events, prefix, p.from, p.through)); err != nil {
			continue
		}
		if n := len(e.events); n == 0 || p.through <= e.events[n-1].Revision || len(p.events) == 0 {
			return nil
		}
		err = fmt.Errorf("it knows revision %d, the history ends before", p.through)
	}
	return err
}
