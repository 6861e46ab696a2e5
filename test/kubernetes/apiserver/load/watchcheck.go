package load

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// checkHistory compares what the watcher saw, which must have started before the first change, with the acknowledged
// history of its objects.
func (w *Watcher) checkHistory(history map[Key][]Change) error {
	var errs []error
	written := make(map[Key][]Change, len(w.seen)) // without what kube-apiserver wrote on its own
	for key, changes := range w.seen {
		for i, change := range changes {
			if change.Type == watch.Deleted && (i == 0 || change.Sum != changes[i-1].Sum) {
				errs = append(errs, fmt.Errorf("%v: %v does not show the object as it was", key, change))
			}
		}
		written[key] = slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Ending })
	}
	errs = append(errs, w.compare(history, written, func(want, got Change) bool {
		if want.Type == watch.Deleted {
			want.Version, want.Sum = got.Version, got.Sum
		}
		return want == got
	})...)
	return w.describe(errs)
}

// checkTruth compares what the watcher saw, including the states it was shown, with what a watcher of everything saw
// after this one's start.
func (w *Watcher) checkTruth(truth map[Key][]Change) error {
	want := w.after(truth, w.From)
	for key, changes := range want {
		want[key] = slices.DeleteFunc(slices.Clone(changes), w.skipped)
	}
	errs := w.compare(want, w.seen, func(want, got Change) bool { return want == got })
	for _, list := range w.lists {
		if err := list.Check(truth); err != nil {
			errs = append(errs, err)
		}
	}
	return w.describe(errs)
}

// skipped reports whether a list replaces a change.
func (w *Watcher) skipped(c Change) bool {
	return slices.ContainsFunc(w.gaps, func(g gap) bool { return c.Version > g.after && c.Version <= g.to })
}

func (w *Watcher) compare(want, got map[Key][]Change, same func(want, got Change) bool) []error {
	var errs []error
	for key, changes := range want {
		if w.within(key) && !slices.EqualFunc(changes, got[key], same) {
			errs = append(errs, fmt.Errorf("%v: saw %v, want %v", key, got[key], changes))
		}
	}
	for key, changes := range got {
		if _, ok := want[key]; !ok {
			errs = append(errs, fmt.Errorf("%v: saw %v of an object that no writer wrote", key, changes))
		}
	}
	return errs
}

// describe keeps a failure readable: one lost event often causes thousands of differences.
func (w *Watcher) describe(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	const shown = 10
	n := len(errs)
	return fmt.Errorf("watch of %v from %d: %d objects differ:\n%w",
		w.Scope, w.From, n, errors.Join(errs[:min(n, shown)]...))
}
