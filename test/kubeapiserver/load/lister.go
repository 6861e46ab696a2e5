package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// errInconsistent is a list that was answered, and wrongly.
var errInconsistent = errors.New("inconsistent list")

// List is what a list in chunks showed.
type List struct {
	Scope
	Version int64
	Pages   int
	Items   map[Key]Change // also those outside the scope's prefix
	Keys    []Key          // of the items within the scope's prefix, in the order of the list
}

// ListChunks lists a scope in chunks to the end. It returns an error if the chunks are not of one
// resource version, show an object twice, are too long, or count wrongly what remains.
func ListChunks(ctx context.Context, client dynamic.Interface, scope Scope, limit int64) (*List, error) {
	list := &List{Scope: scope, Items: map[Key]Change{}}
	options := metav1.ListOptions{Limit: limit}
	total := int64(-1) // as the first page counts it
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
		if int64(len(page.Items)) > limit {
			return nil, list.wrong("%d items on a page of %d", len(page.Items), limit)
		}
		for i := range page.Items {
			item := &page.Items[i]
			key := Key{scope.Kind.Resource, item.GetNamespace(), item.GetName()}
			if _, ok := list.Items[key]; ok {
				return nil, list.wrong("%v is there twice", key)
			}
			if list.Items[key], err = newChange(watch.Modified, item); err != nil {
				return nil, list.errorf("%w", err)
			}
			if scope.within(key) {
				list.Keys = append(list.Keys, key)
			}
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

func (l *List) wrong(format string, args ...any) error {
	return l.errorf("%w: "+format, append([]any{errInconsistent}, args...)...)
}

func (l *List) errorf(format string, args ...any) error {
	return fmt.Errorf("list of %v at %d, page %d: %w",
		l.Scope, l.Version, l.Pages, fmt.Errorf(format, args...))
}

// Check compares the list with the state at its resource version of what a watcher of everything saw.
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
