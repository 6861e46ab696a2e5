package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// errInconsistent is a wrong answer to a list.
var errInconsistent = errors.New("inconsistent list")

// List is the result of a list in chunks.
type List struct {
	Scope
	Version int64
	Pages   int
	Items   map[Key]Change // including those outside the scope's prefix
	Keys    []Key          // of the items within the scope's prefix, in the order of the list
}

// ListChunks lists a scope in chunks to the end. It returns an error if the chunks have different resource versions,
// show an object twice, are too long, or count the remaining objects wrongly.
func ListChunks(ctx context.Context, client dynamic.Interface, scope Scope, limit int64) (*List, error) {
	list := &List{Scope: scope, Items: map[Key]Change{}}
	options := metav1.ListOptions{Limit: limit}
	total := int64(-1) // as counted by the first page
	for {
		page, err := scope.of(client).List(ctx, options)
		if err != nil {
			return nil, list.errorf("%w", err)
		}
		version, err := strconv.ParseInt(page.GetResourceVersion(), 10, 64)
		if err != nil {
			return nil, list.errorf("resource version: %w", err)
		}
		if list.Pages > 0 && version != list.Version {
			return nil, list.wrong("resource version %d on a later page", version)
		}
		list.Version = version
		list.Pages++
		if n := int64(len(page.Items)); n > limit || n < limit && page.GetContinue() != "" {
			return nil, list.wrong("%d items on a page of %d, continue %q", n, limit, page.GetContinue())
		}
		if err := list.add(page.Items); err != nil {
			return nil, err
		}
		here := int64(len(list.Items))
		if left := page.GetRemainingItemCount(); left != nil {
			here += *left
		} else if page.GetContinue() != "" {
			return nil, list.wrong("no remainingItemCount beside a continue token")
		}
		if total == -1 {
			total = here
		} else if here != total {
			return nil, list.wrong("the first page counted %d objects, this one %d", total, here)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return list, nil
		}
	}
}

// insist is ListChunks that retries through an outage, each time from the first page.
func insist(ctx context.Context, client dynamic.Interface, scope Scope, limit int64) (list *List, err error) {
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, outage, true, func(ctx context.Context) (bool, error) {
		list, last = ListChunks(ctx, client, scope, limit)
		if last != nil && (refused(last) || errors.Is(last, errInconsistent)) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (last: %w)", err, last)
	}
	return list, nil
}

// add records items that the list shows next.
func (l *List) add(items []unstructured.Unstructured) error {
	for i := range items {
		item := &items[i]
		key := Key{l.Kind.Resource, item.GetNamespace(), item.GetName()}
		if _, ok := l.Items[key]; ok {
			return l.wrong("%v appears twice", key)
		}
		change, err := newChange(watch.Modified, item)
		if err != nil {
			return l.errorf("%w", err)
		}
		l.Items[key] = change
		if l.within(key) {
			l.Keys = append(l.Keys, key)
		}
	}
	return nil
}

// CheckExact requests the whole list at the list's resource version, which must show the same.
func (l *List) CheckExact(ctx context.Context, client dynamic.Interface) error {
	page, err := l.of(client).List(ctx, metav1.ListOptions{
		ResourceVersion:      strconv.FormatInt(l.Version, 10),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return l.errorf("at its exact version: %w", err)
	}
	whole := &List{Scope: l.Scope, Version: l.Version, Pages: 1, Items: map[Key]Change{}}
	if err := whole.add(page.Items); err != nil {
		return err
	}
	if version := page.GetResourceVersion(); version != strconv.FormatInt(l.Version, 10) || page.GetContinue() != "" {
		return whole.wrong("resource version %s, continue %q", version, page.GetContinue())
	}
	if !slices.Equal(whole.Keys, l.Keys) {
		return whole.wrong("%d objects in chunks, %d in the whole list, or in another order", len(l.Keys),
			len(whole.Keys))
	}
	if err := whole.CheckItems(l.Items); err != nil {
		return fmt.Errorf("%w: chunks and the whole list differ: %w", errInconsistent, err)
	}
	return nil
}

func (l *List) wrong(format string, args ...any) error {
	return l.errorf("%w: "+format, append([]any{errInconsistent}, args...)...)
}

func (l *List) errorf(format string, args ...any) error {
	return fmt.Errorf("list of %v at %d, page %d: %w",
		l.Scope, l.Version, l.Pages, fmt.Errorf(format, args...))
}

// Check compares the list with what a watcher of everything saw, at the list's resource version.
func (l *List) Check(truth map[Key][]Change) error {
	return l.CheckItems(l.at(truth, l.Version))
}

// CheckItems compares the list with the objects that should be in it.
func (l *List) CheckItems(want map[Key]Change) error {
	var errs []error
	for key, change := range want {
		if !l.within(key) {
			continue
		}
		if got, ok := l.Items[key]; !ok {
			errs = append(errs, fmt.Errorf("%v of version %d is missing", key, change.Version))
		} else if got.Version != change.Version || got.Sum != change.Sum {
			errs = append(errs, fmt.Errorf("%v: version %d (same content: %t), want %d",
				key, got.Version, got.Sum == change.Sum, change.Version))
		}
	}
	for key, got := range l.Items {
		if _, ok := want[key]; !ok && l.within(key) {
			errs = append(errs, fmt.Errorf("%v of version %d should not be there", key, got.Version))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return l.errorf("%d of %d objects differ:\n%w", len(errs), len(want), errors.Join(errs[:min(len(errs), 10)]...))
}
