package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// ledger records the acknowledged writes of many clients to the objects of one watch: each must arrive as one event, in
// the order of the resource versions, with the object as in the answer.
type ledger struct {
	mu     sync.Mutex
	writes map[int64]string // by resource version
}

func newLedger() *ledger { return &ledger{writes: map[int64]string{}} }

// add records the answer to a write. It is an error if another write got the same resource version, unless the write
// changed nothing and was answered with the object of an earlier one.
func (l *ledger) add(answer runtime.Object) error {
	version, text, err := describe(answer)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.writes[version]; ok && other != text {
		return fmt.Errorf("two writes at resource version %d: %s and %s", version, other, text)
	}
	l.writes[version] = text
	return nil
}

// check reads the watch until the last recorded write and compares. see, unless nil, gets every object on the way.
func (l *ledger) check(ctx context.Context, stream watch.Interface, see func(runtime.Object) error) error {
	missing := maps.Clone(l.writes)
	var last, previous int64
	for version := range missing {
		last = max(last, version)
	}
	for previous < last {
		var event watch.Event
		select {
		case event = <-stream.ResultChan():
		case <-ctx.Done():
			return fmt.Errorf("%w: seen up to %d of %d, %d events are missing", ctx.Err(), previous, last, len(missing))
		}
		switch event.Type {
		case watch.Added, watch.Modified:
		case watch.Error:
			return apierrors.FromObject(event.Object)
		default: // also "" for a watch that has ended
			return fmt.Errorf("event %q after resource version %d", event.Type, previous)
		}
		version, text, err := describe(event.Object)
		if err != nil {
			return err
		}
		if version <= previous {
			return fmt.Errorf("event at %d after one at %d", version, previous)
		}
		previous = version
		if want, ok := missing[version]; !ok || want != text {
			return fmt.Errorf("event at %d (from a recorded write: %t) shows\n%s\nwant\n%s", version, ok, text, want)
		}
		delete(missing, version)
		if see != nil {
			if err := see(event.Object); err != nil {
				return fmt.Errorf("at %d: %w", version, err)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no events at resource versions %v", slices.Sorted(maps.Keys(missing)))
	}
	return nil
}

// describe returns the resource version of an object and its complete text.
func describe(object runtime.Object) (version int64, text string, err error) {
	object = object.DeepCopyObject()
	// which typed clients set only in some answers
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	content, errJSON := json.Marshal(object)
	accessor, err := meta.Accessor(object)
	if err := errors.Join(err, errJSON); err != nil {
		return 0, "", err
	}
	version, err = strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	return version, string(content), err
}

// watched is a client for one kind of objects.
type watched[L metav1.ListInterface] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// watchFromNow lists, and watches what follows the list until the test ends.
func watchFromNow[L metav1.ListInterface](ctx context.Context, t *testing.T, client watched[L]) watch.Interface {
	t.Helper()
	before, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Stop)
	return stream
}

// parallel calls do for 0 to n-1, eight at a time, and returns the first error.
func parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
