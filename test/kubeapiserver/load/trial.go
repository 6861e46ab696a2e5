package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// chunk is how many objects a list taken beside the writers asks for at a time: small, so that even
// a small load has lists of many pages.
const chunk = 100

// keptItems bounds the memory that lists take until they are compared: about 200 bytes an item.
const keptItems = 2_000_000

// drain bounds how long watchers may take to see the last change once all writers are done.
const drain = 2 * time.Minute

// Trial is one load with all that looks on: watchers of everything and of single namespaces, from
// the start and from lists taken in between, and lists in chunks, one after the other.
type Trial struct {
	Config
	// Prefix begins the names of the load's namespaces and of no others.
	Prefix string
	Client dynamic.Interface
	// Interrupted allows requests to fail because the store goes away.
	Interrupted bool

	History  *History
	everyone []*Watcher // of all namespaces, from before the first change
	later    []*Watcher
	lists    []*List
}

// Result says how much a Trial saw.
type Result struct {
	Changes, Unclear, Lists, Pages, Watches, Reopened, Bookmarks int
	// Truth is every change of every object with its resource version, deletions too.
	Truth map[Key][]Change
}

func (r Result) String() string {
	return fmt.Sprintf("%d changes (%d requests of unclear outcome), %d lists of %d pages, %d watches reopened %d times, %d bookmarks",
		r.Changes, r.Unclear, r.Lists, r.Pages, r.Watches, r.Reopened, r.Bookmarks)
}

// Run writes the load and checks all that was seen of it. While the writers work, disturb may do what
// it likes to the store; nil is nothing.
func (t *Trial) Run(ctx context.Context, disturb func(context.Context) error) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watchers when something failed
	if err := t.watchEveryone(ctx); err != nil {
		return Result{}, err
	}

	written := make(chan struct{})
	looking := make(chan error, 1)
	go func() { looking <- t.look(ctx, written) }()
	disturbing := make(chan error, 1)
	go func() {
		if disturb == nil {
			disturb = func(context.Context) error { return nil }
		}
		disturbing <- disturb(ctx)
	}()
	err := Write(ctx, t.Client, t.History, t.Config)
	if err != nil {
		cancel() // whatever still waits for more changes
	}
	close(written)
	if err := errors.Join(err, <-disturbing, <-looking); err != nil {
		return Result{}, err
	}
	if err := Fence(ctx, t.Client, t.History, t.Config); err != nil {
		return Result{}, err
	}
	time.AfterFunc(drain, cancel)
	return t.check()
}

// watchEveryone starts the watchers that see the whole history.
func (t *Trial) watchEveryone(ctx context.Context) error {
	for _, kind := range t.Kinds {
		scope := Scope{Kind: kind, Prefix: t.Prefix}
		list, err := ListChunks(ctx, t.Client, scope, chunk)
		if err != nil {
			return err
		}
		t.everyone = append(t.everyone, Watch(ctx, t.Client, scope, list.Version, len(t.Namespaces)))
	}
	return nil
}

// look lists in turn all namespaces and a single one of every kind until all is written, and begins
// watches from what some of the lists showed, as controllers do when they start. It lists as often as
// the number of changes says, not the time, so that a fast store is not given more to do.
func (t *Trial) look(ctx context.Context, written <-chan struct{}) error {
	const watches, changesPerList = 12, 25
	kept := 0
	for i := 0; ; i++ {
		select {
		case <-t.History.Reached(i*changesPerList, 0):
		case <-written:
			return nil
		}
		scope := Scope{Kind: t.Kinds[i%len(t.Kinds)], Prefix: t.Prefix}
		fences := len(t.Namespaces)
		if i/len(t.Kinds)%2 == 1 {
			scope.Namespace = t.Namespaces[i%len(t.Namespaces)]
			fences = 1
		}
		list, err := t.list(ctx, scope)
		if err != nil {
			return err
		}
		if kept += len(list.Items); kept <= keptItems {
			t.lists = append(t.lists, list)
		}
		if len(t.later) < watches {
			t.later = append(t.later, Watch(ctx, t.Client, scope, list.Version, fences))
		}
	}
}

// list takes a list, again from its first page if the store went away.
func (t *Trial) list(ctx context.Context, scope Scope) (list *List, err error) {
	if !t.Interrupted {
		return ListChunks(ctx, t.Client, scope, chunk)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, outage, true, func(ctx context.Context) (bool, error) {
		list, last = ListChunks(ctx, t.Client, scope, chunk)
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

// check waits for the watchers and holds everything against the history.
func (t *Trial) check() (Result, error) {
	r := Result{
		Changes: t.History.Count(), Unclear: t.History.Unclear(), Lists: len(t.lists),
		Truth: map[Key][]Change{},
	}
	errs := []error{t.History.Versions()}
	if r.Unclear > 0 && !t.Interrupted {
		errs = append(errs, fmt.Errorf("%d requests failed though the store never went away", r.Unclear))
	}
	for _, w := range slices.Concat(t.everyone, t.later) {
		errs = append(errs, w.Wait())
		r.Watches++
		r.Reopened += w.reopened
		r.Bookmarks += w.bookmarks
	}
	history := t.History.Changes()
	for _, w := range t.everyone {
		errs = append(errs, w.checkHistory(history))
		maps.Copy(r.Truth, w.seen)
	}
	for _, w := range t.later {
		errs = append(errs, w.checkTruth(r.Truth))
	}
	for _, list := range t.lists {
		errs = append(errs, list.Check(r.Truth))
		r.Pages += list.Pages
	}
	return r, errors.Join(errs...)
}
