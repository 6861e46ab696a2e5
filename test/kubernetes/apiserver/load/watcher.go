package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Manner is how a Watcher watches. The zero Manner begins with a state from the watch itself (sendInitialEvents), and
// lets the server decide when a stream ends.
type Manner struct {
	// From is the resource version to start after, as a list returned it.
	From int64
	// Turn is how long a stream lasts, in whole seconds: the next continues after the last event or bookmark.
	Turn time.Duration
	// Relist is for a restarted kube-apiserver, whose watch cache knows nothing older than its start: the watcher then
	// lists again.
	Relist bool
}

// Watcher follows the changes of the objects in a Scope.
type Watcher struct {
	Scope
	Manner // From is set by the first state, if the watch begins with one

	client dynamic.Interface
	fences int          // how many fences are to come
	fenced map[Key]bool // those that have come
	last   int64
	// seen is what the events said, in order.
	seen      map[Key][]Change
	state     *List   // while the watch shows a state
	lists     []*List // the states that it received or listed
	gaps      []gap
	reopened  int
	bookmarks int
	done      chan struct{}
	err       error
}

// gap are the changes that a list replaces: those after one resource version up to another.
type gap struct{ after, to int64 }

// Watch starts a Watcher. It ends, and Wait returns, when it has seen that many of the objects that Fence creates, or
// ctx ends.
func Watch(ctx context.Context, client dynamic.Interface, scope Scope, manner Manner, fences int) *Watcher {
	w := &Watcher{
		Scope: scope, Manner: manner,
		client: client,
		fences: fences, last: manner.From,
		fenced: map[Key]bool{},
		seen:   map[Key][]Change{},
		done:   make(chan struct{}),
	}
	go func() {
		defer close(w.done)
		w.err = w.run(ctx)
	}()
	return w
}

// Wait waits until the watcher has ended and returns why, nil if it has seen everything it should.
func (w *Watcher) Wait() error {
	<-w.done
	if w.err != nil {
		return fmt.Errorf("watch of %v from %d, at %d after %d openings: %w",
			w.Scope, w.From, w.last, w.reopened+1, w.err)
	}
	return nil
}

// run reopens the watch wherever it broke, as controllers do.
func (w *Watcher) run(ctx context.Context) error {
	for {
		err := w.turn(ctx)
		if w.Relist && apierrors.IsResourceExpired(err) {
			err = w.list(ctx)
		}
		if err != nil || w.complete() {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.reopened++
	}
}

// turn follows one stream.
func (w *Watcher) turn(ctx context.Context) error {
	stream, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer stream.Stop()
	return w.follow(stream.ResultChan())
}

// open opens the watch after the last event seen, retrying through an outage.
func (w *Watcher) open(ctx context.Context) (stream watch.Interface, err error) {
	options := metav1.ListOptions{AllowWatchBookmarks: true}
	if w.last == 0 {
		w.state = &List{Scope: w.Scope, Items: map[Key]Change{}}
		initial := true
		options.SendInitialEvents, options.ResourceVersionMatch = &initial, metav1.ResourceVersionMatchNotOlderThan
	} else {
		options.ResourceVersion = strconv.FormatInt(w.last, 10)
	}
	if w.Turn > 0 {
		seconds := int64(w.Turn / time.Second)
		options.TimeoutSeconds = &seconds
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, outage, true, func(context.Context) (bool, error) {
		// The stream lives as long as the context of its request, not the poll's.
		stream, last = w.of(w.client).Watch(ctx, options)
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

// list replaces the changes that are too old for the watch.
func (w *Watcher) list(ctx context.Context) error {
	list, err := insist(ctx, w.client, w.Scope, chunk)
	if err != nil {
		return err
	}
	if list.Version < w.last {
		return fmt.Errorf("list at %d after an event or bookmark at %d", list.Version, w.last)
	}
	w.gaps = append(w.gaps, gap{after: w.last, to: list.Version})
	w.show(list)
	return nil
}

// show records a state as if the watch had shown all its changes.
func (w *Watcher) show(list *List) {
	w.lists = append(w.lists, list)
	w.last = list.Version
	for key := range list.Items {
		w.fence(key)
	}
}

// fence records a fence that exists; no fence is ever deleted.
func (w *Watcher) fence(key Key) {
	if w.within(key) && key.Name == fenceName {
		w.fenced[key] = true
	}
}

// complete reports whether all fences have come.
func (w *Watcher) complete() bool { return len(w.fenced) >= w.fences }

// follow records events until the stream breaks or the last fence has come.
func (w *Watcher) follow(events <-chan watch.Event) error {
	for event := range events {
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); refused(err) || apierrors.IsResourceExpired(err) {
				return err
			}
			return nil // the store went down: open again
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s event with a %T", event.Type, event.Object)
		}
		if err := w.event(event.Type, object); err != nil {
			return err
		}
		if w.complete() {
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
	if w.state != nil {
		return w.initial(key, change, object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true")
	}
	if kind == watch.Bookmark {
		if change.Version < w.last {
			return fmt.Errorf("bookmark %d after %d", change.Version, w.last)
		}
		w.bookmarks++
		w.last = change.Version
		return nil
	}
	// This also holds for a bookmark: it promises that no event up to its version will follow.
	if change.Version <= w.last {
		return fmt.Errorf("%v %v after an event or bookmark at %d", key, change, w.last)
	}
	w.last = change.Version
	if !w.within(key) {
		return nil
	}
	w.seen[key] = append(w.seen[key], change)
	if kind == watch.Added {
		w.fence(key)
	}
	return nil
}

// initial handles an event of the state that a watch begins with. The bookmark with the end mark has its version.
func (w *Watcher) initial(key Key, change Change, end bool) error {
	switch change.Type {
	case watch.Added:
		if _, ok := w.state.Items[key]; ok {
			return fmt.Errorf("initial events show %v twice", key)
		}
		w.state.Items[key] = change
	case watch.Modified:
		w.state.Items[key] = change
	case watch.Deleted:
		delete(w.state.Items, key)
	case watch.Bookmark:
		if !end {
			return nil // of a version that the state has not reached
		}
		w.state.Version, w.state.Pages = change.Version, 1
		w.From = change.Version
		w.show(w.state)
		w.state = nil
	}
	return nil
}
