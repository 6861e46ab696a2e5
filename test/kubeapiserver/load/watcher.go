package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Watcher follows the changes of the objects in a Scope.
type Watcher struct {
	Scope
	From int64 // the resource version that it started at

	client dynamic.ResourceInterface
	fences int // how many fences are still to come
	last   int64
	// seen is what the events said, in their order.
	seen      map[Key][]Change
	reopened  int
	bookmarks int
	done      chan struct{}
	err       error
}

// Watch starts a Watcher at a resource version, as a list returned it. It ends, and Wait returns,
// when it has seen as many of the objects that Fence makes as fences says, or ctx ends.
func Watch(ctx context.Context, client dynamic.Interface, scope Scope, from int64, fences int) *Watcher {
	w := &Watcher{
		Scope: scope, From: from,
		client: scope.of(client),
		fences: fences, last: from,
		seen: map[Key][]Change{},
		done: make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		w.err = w.run(ctx)
	}()
	return w
}

// Wait waits until the watcher has ended and returns why, nil when it has seen all it should see.
func (w *Watcher) Wait() error {
	<-w.done
	if w.err != nil {
		return fmt.Errorf("watch of %v from %d, at %d after %d openings: %w",
			w.Scope, w.From, w.last, w.reopened+1, w.err)
	}
	return nil
}

// run opens the watch again wherever it broke, as controllers do.
func (w *Watcher) run(ctx context.Context) error {
	for {
		stream, err := w.open(ctx)
		if err != nil {
			return err
		}
		err = w.follow(stream.ResultChan())
		stream.Stop()
		if err != nil || w.fences == 0 {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.reopened++
	}
}

// open opens the watch behind the last event seen, through any outage.
func (w *Watcher) open(ctx context.Context) (stream watch.Interface, err error) {
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, outage, true, func(context.Context) (bool, error) {
		// The stream lives as long as the context of its request: not the poll's.
		stream, last = w.client.Watch(ctx, metav1.ListOptions{
			ResourceVersion:     strconv.FormatInt(w.last, 10),
			AllowWatchBookmarks: true,
		})
		if last != nil && refused(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("open: %w (last: %v)", err, last) //nolint:errorlint // last may be nil
	}
	return stream, nil
}

// follow notes events until the stream breaks or the last fence has come.
func (w *Watcher) follow(events <-chan watch.Event) error {
	for event := range events {
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); refused(err) || apierrors.IsResourceExpired(err) {
				return err
			}
			return nil // the store went away: open again
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s event with a %T", event.Type, event.Object)
		}
		if err := w.event(event.Type, object); err != nil {
			return err
		}
		if w.fences == 0 {
			return nil
		}
	}
	return nil
}

func (w *Watcher) event(kind watch.EventType, object *unstructured.Unstructured) error {
	change, err := newChange(kind, object)
	if err != nil {
		return err
	}
	key := Key{w.Kind.Resource, object.GetNamespace(), object.GetName()}
	if kind == watch.Bookmark {
		if change.Version < w.last {
			return fmt.Errorf("bookmark %d after %d", change.Version, w.last)
		}
		w.bookmarks++
		w.last = change.Version
		return nil
	}
	// Also against a bookmark: it promises that no event up to its version is still to come.
	if change.Version <= w.last {
		return fmt.Errorf("%v %v after an event or bookmark at %d", key, change, w.last)
	}
	w.last = change.Version
	if !w.within(key) {
		return nil
	}
	w.seen[key] = append(w.seen[key], change)
	if key.Name == fenceName && kind == watch.Added {
		w.fences--
	}
	return nil
}

// checkHistory compares what the watcher saw, which must have started before the first change, with
// the acknowledged history of its objects.
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

// checkTruth compares what the watcher saw with what a watcher of everything saw, from where this
// one started.
func (w *Watcher) checkTruth(truth map[Key][]Change) error {
	return w.describe(w.compare(w.after(truth, w.From), w.seen, func(want, got Change) bool { return want == got }))
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
			errs = append(errs, fmt.Errorf("%v: saw %v of an object that nobody wrote", key, changes))
		}
	}
	return errs
}

// describe keeps a failure readable: one lost event often means thousands.
func (w *Watcher) describe(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	const shown = 10
	n := len(errs)
	return fmt.Errorf("watch of %v from %d: %d objects differ:\n%w",
		w.Scope, w.From, n, errors.Join(errs[:min(n, shown)]...))
}
