package world

import (
	"fmt"
	"time"
)

// lastFault loses history once more, after the load has ended: nothing written later hides what is stuck then.
func (w *World) lastFault() {
	w.weather.set(fair)
	if w.plan.kind != Asynchronous {
		return
	}
	r := source(w.seed, "last fault")
	w.askEarly()
	w.count("failover that loses commits")
	w.loses(r)
	if r.IntN(2) == 0 { // back to a time before the loss
		time.Sleep(5*time.Second + upTo(r, 5*time.Second))
		w.count("backup restored in place")
		w.gremlin.rewind()
	}
}

// recover checks that everything recovers within settle.
func (w *World) recover() {
	w.recovering.Store(true)
	deadline := time.Now().Add(settle)
	for i, r := range w.replicas {
		c := &client{source(w.seed, fmt.Sprint("last client ", i)), w, 900 + i, r}
		if err := w.until(deadline, func() error { return c.put(0, fmt.Sprintf("k/%02d", i)) }); err != nil {
			w.problem("%s does not write again: %v", r.name, err)
			continue
		}
		if err := w.until(deadline, func() error { _, err := c.get("k/00"); return err }); err != nil {
			w.problem("%s does not read again: %v", r.name, err)
		}
	}
	for _, e := range w.early {
		if err := e.answered(deadline); err != nil {
			w.problem("%s answers no progress request on a stream that had one when history was lost: %v", e.name, err)
		}
	}
	_, clock := w.cluster.History(w.primary)
	for _, r := range w.replicas {
		if err := w.until(deadline, func() error { return progress(r, clock.Revision) }); err != nil {
			w.problem("%s answers no progress request: %v", r.name, err)
		}
	}
	w.leasesEnd(deadline)
	_, clock = w.cluster.History(w.primary)
	for _, v := range w.watchers {
		if err := w.until(deadline, func() error {
			if seen := v.seen(); seen < clock.Revision {
				return fmt.Errorf("it has seen revision %d of %d", seen, clock.Revision)
			}
			return nil
		}); err != nil {
			w.problem("the watch of %q by %d does not catch up: %v", v.prefix, v.stays, err)
		}
	}
}

// leasesEnd checks that all leases end.
func (w *World) leasesEnd(deadline time.Time) {
	if err := w.until(deadline, func() error {
		if n := w.cluster.Leases(w.primary); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	}); err != nil {
		w.problem("leases do not end: %v", err)
	}
}

// until repeats f until it succeeds or the deadline has passed.
func (w *World) until(deadline time.Time, f func() error) error {
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}
