package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
)

// chunk is the default number of objects per page for lists during the writes: few, so that even a small load has lists
// of many pages.
const chunk = 100

// changesPerList is the default number of changes between two lists.
const changesPerList = 25

// watches is how many watches begin during the writes, turn how long a stream of some of them lasts; wholeLists is the
// number of lists of which one is compared with the whole list at its version.
const (
	watches    = 12
	turn       = 4 * time.Second
	wholeLists = 5
)

// keptItems limits the memory that lists take until they are compared: about 200 bytes an item.
const keptItems = 2_000_000

// drain limits how long watchers may take to see the last change once all writers are done.
const drain = 2 * time.Minute

// Trial is one load with its observers: watchers of everything and of single namespaces, from the start and from lists
// taken in between, and lists in chunks, one after another.
type Trial struct {
	Config
	// Prefix is the prefix of the names of the load's namespaces, and of no others.
	Prefix string
	Client dynamic.Interface
	// Interrupted allows requests to fail because the store goes down.
	Interrupted bool
	// Beside is another kube-apiserver on the same store, which may go down and lose its memory: the later watches and
	// the lists use it. nil is Client.
	Beside dynamic.Interface
	// Chunk is how many objects a list requests at a time, ChangesPerList the minimum number of changes between two
	// lists; 0 means small defaults.
	Chunk          int64
	ChangesPerList int

	History  *History
	everyone []*Watcher // of all namespaces, from before the first change
	later    []*Watcher
	lists    []*List
}

// Result is how much a Trial saw.
type Result struct {
	Changes, Unclear, Lists, Pages, Watches, Reopened, Relisted, Bookmarks int
	// Truth is every change of every object with its resource version, including deletions.
	Truth map[Key][]Change
}

func (r Result) String() string {
	return fmt.Sprintf("%d changes (%d requests of unclear outcome), %d lists of %d pages, %d watches reopened %d "+
		"times and listed again %d times, %d bookmarks",
		r.Changes, r.Unclear, r.Lists, r.Pages, r.Watches, r.Reopened, r.Relisted, r.Bookmarks)
}

// Run writes the load and checks everything observed. While the writers work, disturb may do anything to the store; nil
// means no disturbance.
func (t *Trial) Run(ctx context.Context, disturb func(context.Context) error) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watchers if something failed
	t.Chunk, t.ChangesPerList = cmp.Or(t.Chunk, chunk), cmp.Or(t.ChangesPerList, changesPerList)
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
		cancel() // ends what still waits for more changes
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
		list, err := ListChunks(ctx, t.Client, scope, t.Chunk)
		if err != nil {
			return err
		}
		t.everyone = append(t.everyone, Watch(ctx, t.Client, scope, Manner{From: list.Version}, len(t.Namespaces)))
	}
	return nil
}

// look lists in turn all namespaces and a single one of every kind until everything is written, and begins watches from
// what some of the lists showed, as controllers do when they start. The number of changes decides how often it lists,
// not the time, so that a fast store does not get more work.
func (t *Trial) look(ctx context.Context, written <-chan struct{}) error {
	client := t.Client
	if t.Beside != nil {
		client = t.Beside
	}
	kept := 0
	for i := 0; ; i++ {
		select {
		case <-t.History.Reached(i*t.ChangesPerList, 0):
		case <-written:
			return nil
		}
		scope := Scope{Kind: t.Kinds[i%len(t.Kinds)], Prefix: t.Prefix}
		fences := len(t.Namespaces)
		if i/len(t.Kinds)%2 == 1 {
			scope.Namespace = t.Namespaces[i%len(t.Namespaces)]
			fences = 1
		}
		list, err := t.list(ctx, client, scope)
		if err != nil {
			return err
		}
		if kept += len(list.Items); kept <= keptItems {
			t.lists = append(t.lists, list)
		}
		if len(t.later) < watches {
			t.later = append(t.later, Watch(ctx, client, scope, t.manner(list), fences))
		}
	}
}

// manner chooses how the next of the later watches watches.
func (t *Trial) manner(list *List) Manner {
	m := Manner{From: list.Version, Relist: t.Beside != nil}
	switch len(t.later) % 3 {
	case 1:
		m.Turn = turn
	case 2:
		m.From = 0
	}
	return m
}

// list takes a list, again from its first page if the store went down; otherwise it sometimes compares it with the
// whole list of its version.
func (t *Trial) list(ctx context.Context, client dynamic.Interface, scope Scope) (*List, error) {
	if t.Interrupted || t.Beside != nil {
		return insist(ctx, client, scope, t.Chunk)
	}
	list, err := ListChunks(ctx, client, scope, t.Chunk)
	if err == nil && len(t.lists)%wholeLists == 0 {
		err = list.CheckExact(ctx, client)
	}
	return list, err
}

// check waits for the watchers and compares everything with the history.
func (t *Trial) check() (Result, error) {
	r := Result{
		Changes: t.History.Count(), Unclear: t.History.Unclear(), Lists: len(t.lists),
		Truth: map[Key][]Change{},
	}
	errs := []error{t.History.Versions()}
	if r.Unclear > 0 && !t.Interrupted {
		errs = append(errs, fmt.Errorf("%d requests failed though the store was never down", r.Unclear))
	}
	for _, w := range slices.Concat(t.everyone, t.later) {
		errs = append(errs, w.Wait())
		r.Watches++
		r.Reopened += w.reopened
		r.Relisted += len(w.gaps)
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
