package load

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// outage is how long a writer waits for a kube-apiserver whose store is down.
const outage = 3 * time.Minute

// life is the work of one writer on one object, which no other writer writes.
type life struct {
	kind    Kind
	key     Key
	client  dynamic.ResourceInterface
	history *History
	current *unstructured.Unstructured // nil while the object does not exist
	step    int
}

// newLife returns a life for an object that does not exist yet.
func newLife(client dynamic.Interface, history *History, kind Kind, namespace, name string) *life {
	return &life{
		kind:    kind,
		key:     Key{kind.Resource, namespace, name},
		client:  client.Resource(kind.GroupVersionResource).Namespace(namespace),
		history: history,
	}
}

// payload returns a unique text for a version of the object.
func (l *life) payload() string {
	l.step++
	return fmt.Sprintf("%v/%d/%s", l.key, l.step, strings.Repeat("x", 200))
}

// create makes the object.
func (l *life) create(ctx context.Context) error {
	want := l.kind.New(l.key.Namespace, l.key.Name, l.payload())
	return l.write(ctx, watch.Added, want, func() (*unstructured.Unstructured, error) {
		return l.client.Create(ctx, want, metav1.CreateOptions{})
	})
}

// update replaces the object at its resource version.
func (l *life) update(ctx context.Context) error {
	want := l.current.DeepCopy()
	want.SetAnnotations(map[string]string{payloadAnnotation: l.payload()})
	return l.write(ctx, watch.Modified, want, func() (*unstructured.Unstructured, error) {
		return l.client.Update(ctx, want, metav1.UpdateOptions{})
	})
}

// patch changes the object by a merge patch, without a resource version.
func (l *life) patch(ctx context.Context) error {
	want := l.kind.New(l.key.Namespace, l.key.Name, l.payload())
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, payloadAnnotation, Payload(want))
	return l.write(ctx, watch.Modified, want, func() (*unstructured.Unstructured, error) {
		return l.client.Patch(ctx, l.key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

// apply changes the object by server-side apply.
func (l *life) apply(ctx context.Context) error {
	want := &unstructured.Unstructured{Object: map[string]any{}}
	want.SetGroupVersionKind(l.kind.GroupVersion().WithKind(l.kind.Kind))
	want.SetName(l.key.Name)
	want.SetNamespace(l.key.Namespace)
	want.SetAnnotations(map[string]string{payloadAnnotation: l.payload()})
	return l.write(ctx, watch.Modified, want, func() (*unstructured.Unstructured, error) {
		return l.client.Apply(ctx, l.key.Name, want, metav1.ApplyOptions{FieldManager: "load", Force: true})
	})
}

// delete removes the object if it is the one that the writer knows.
func (l *life) delete(ctx context.Context) error {
	now := int64(0)
	return l.write(ctx, watch.Deleted, nil, func() (*unstructured.Unstructured, error) {
		uid, version := l.current.GetUID(), l.current.GetResourceVersion()
		return nil, l.client.Delete(ctx, l.key.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now,
			Preconditions:      &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
	})
}

// write sends a request until it has taken place and records the change. want is the desired object, nil for a
// deletion. If the answer does not settle the outcome, it reads the object, which does: no other writer writes it.
func (l *life) write(ctx context.Context, event watch.EventType, want *unstructured.Unstructured,
	request func() (*unstructured.Unstructured, error),
) error {
	for {
		got, err := request()
		if err != nil {
			if refused(err) {
				return fmt.Errorf("%v: %s: %w", l.key, event, err)
			}
			l.history.addUnclear()
			var done bool
			if got, done, err = l.outcome(ctx, want); err != nil {
				return fmt.Errorf("%v: after %s of unclear outcome: %w", l.key, event, err)
			}
			if !done {
				continue
			}
		}
		return l.note(event, want, got)
	}
}

// note records a change that took place.
func (l *life) note(event watch.EventType, want, got *unstructured.Unstructured) error {
	change := Change{Type: event}
	if want != nil {
		if Payload(got) != Payload(want) {
			return fmt.Errorf("%v: %s answered with payload %q, want %q", l.key, event, Payload(got), Payload(want))
		}
		var err error
		if change, err = newChange(event, got); err != nil {
			return err
		}
	}
	l.current = got
	l.history.add(l.key, change)
	return nil
}

// outcome reads whether a request took place: whether the object is as wanted, or as before.
func (l *life) outcome(ctx context.Context, want *unstructured.Unstructured) (got *unstructured.Unstructured, done bool,
	err error,
) {
	got, err = l.read(ctx)
	if err != nil {
		return nil, false, err
	}
	switch {
	case got == nil && want == nil:
		return nil, true, nil
	case got == nil && l.current == nil:
		return nil, false, nil // as before
	case got == nil:
		return nil, false, fmt.Errorf("acknowledged at resource version %s, and lost", l.current.GetResourceVersion())
	case want != nil && Payload(got) == Payload(want):
		return got, true, nil
	case want == nil && got.GetDeletionTimestamp() != nil:
		l.current = got // a Pod's deletion takes two writes, and this is between them
		return got, false, nil
	case l.current != nil && got.GetResourceVersion() == l.current.GetResourceVersion():
		return got, false, nil
	default:
		return nil, false, fmt.Errorf("found resource version %s with payload %q", got.GetResourceVersion(),
			Payload(got))
	}
}

// read reads the object, retrying through an outage; nil if it does not exist.
func (l *life) read(ctx context.Context) (*unstructured.Unstructured, error) {
	var got *unstructured.Unstructured
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, outage, true,
		func(ctx context.Context) (bool, error) {
			got, last = l.client.Get(ctx, l.key.Name, metav1.GetOptions{})
			return last == nil || apierrors.IsNotFound(last), nil
		})
	if err != nil {
		return nil, fmt.Errorf("%w (last: %w)", err, last)
	}
	if last != nil {
		return nil, nil //nolint:nilerr // the object does not exist
	}
	return got, nil
}

// refused lists the answers that mean that a write did not and will not take place. All others, above all 500, 503 and
// 504 while a store is down, do not settle that.
func refused(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsGone(err) || apierrors.IsMethodNotSupported(err)
}
