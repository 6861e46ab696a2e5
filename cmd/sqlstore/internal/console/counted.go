package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

// counted is the result of a count. It follows the changes while somebody looks at it: see [Console.topLive].
type counted struct {
	base      int64         // the revision that the keys were counted at
	following chan struct{} // holds an element while somebody adds changes, who alone uses next
	next      int64         // all changes of revisions before this one were added

	mu      sync.Mutex // of what follows
	facts   facts
	changed int64                 // how often something changed
	groups  map[string]*tally.Top // without the fields
	fields  *tally.Fields
}

// facts are what was counted, and when.
type facts struct {
	Revision int64     // whose state is counted
	Since    int64     // writes after this revision are counted
	At       time.Time // when Revision was the newest one
	Live     bool      // it is now
}

// newCounted returns a counted of keys at a revision, with nothing counted yet.
func newCounted(revision int64) *counted {
	n := &counted{
		base: revision, following: make(chan struct{}, 1), facts: facts{Revision: revision},
		groups: map[string]*tally.Top{}, fields: tally.NewFields(),
	}
	for i, name := range []func(key, value []byte) string{
		tally.ByPrefix("", prefixLevels), tally.ByKind, tally.ByNamespace,
	} {
		n.groups[groupings[i]] = tally.NewTop(tally.Bounded(mostGroups, name))
	}
	return n
}

// read calls f while nothing changes, with what was counted.
func (n *counted) read(f func(facts)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.facts
	if of.Live {
		of.At = time.Now()
	}
	f(of)
}

// changes returns how often something has changed.
func (n *counted) changes() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// largest returns groups, while nothing changes.
func (n *counted) largest(by, kind string, sort func(*tally.Group) int64, limit int) []tally.Group {
	if by == byField {
		return n.fields.Largest(kind, sort, limit)
	}
	return n.groups[by].Largest(sort, limit)
}

// live adds a key.
func (n *counted) live(row *backend.Row) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, top := range n.groups {
		top.Live(row)
	}
	n.fields.Live(row)
}

// add adds the changes of whole revisions: to what was written, and, if they are newer than the keys that were counted,
// to what exists.
func (n *counted) add(all []*backend.Change) {
	if len(all) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, change := range all {
		for _, top := range n.groups {
			n.addTo(top, change)
		}
		n.addTo(n.fields, change)
	}
	last := all[len(all)-1].Row.ModRevision
	n.next = last + 1
	n.facts.Revision = max(n.facts.Revision, last)
	n.changed++
}

// grouped counts rows and changes in groups.
type grouped interface {
	Live(r *backend.Row)
	Superseded(r *backend.Row)
	Written(c *backend.Change)
}

func (n *counted) addTo(to grouped, change *backend.Change) {
	to.Written(change)
	if change.Row.ModRevision <= n.base {
		return
	}
	if change.Prev != nil {
		to.Superseded(change.Prev)
	}
	if !change.Row.Deleted {
		to.Live(&change.Row)
	}
}

// reached records that all changes up to a revision were added, and whether later ones will be.
func (n *counted) reached(revision int64, live bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if live != n.facts.Live || revision > n.facts.Revision {
		n.changed++
	}
	if n.facts.Live && !live {
		n.facts.At = time.Now()
	}
	n.next = max(n.next, revision+1)
	n.facts.Revision, n.facts.Live = max(n.facts.Revision, revision), live
}

// errSuperseded means that nobody knows the size of a version that was superseded.
var errSuperseded = &failure{
	Code: http.StatusGone, exact: true, Message: "What has changed since this count is compacted: count again.",
}

// errComplete ends a watch.
var errComplete = errors.New("complete")

// writes adds the changes of the newest revisions up to that of the count, and calls added for each.
func (c *counter) writes(r *http.Request, n *counted, pace *pacer, added func()) error {
	var report struct {
		Compacted int64 `json:"compacted"`
	}
	if err := c.api.get(r, "/status", nil, &report); err != nil {
		return err
	}
	n.facts.Since = min(max(report.Compacted, n.base-countedWrites, 1), n.base)
	n.facts.At, n.next = time.Now(), n.facts.Since+1
	err := n.follow(r, c.api, func(revision int64) error {
		if revision > n.base {
			return errComplete
		}
		added()
		return pace.pause()
	}, func(revision int64) error {
		if revision >= n.base {
			return errComplete
		}
		return nil
	})
	if errors.Is(err, errComplete) {
		return nil
	}
	return err
}

// follow watches from where the changes end that were added, and adds those of more revisions until the request's
// context ends or it fails. It calls each before it adds a change, with its revision, and reached once there are no
// others up to a revision. Errors: theirs, the context's, [*failure].
func (n *counted) follow(r *http.Request, api api, each, reached func(revision int64) error) error {
	var pending []*backend.Change // of revisions that may not be complete
	add := func() {
		n.add(pending)
		pending = nil
	}
	ask := url.Values{
		"watch": {"true"}, "previous": {"true"}, "allowWatchBookmarks": {"true"},
		"resourceVersion": {strconv.FormatInt(n.next-1, 10)},
	}
	err := api.follow(r, objectsPath, ask, func(text []byte) error {
		var e watchEvent
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("count writes: %w", err)
		}
		revision := e.Object.Metadata.ResourceVersion
		switch e.Type {
		case "ERROR":
			return &e.Object.failure
		case "BOOKMARK":
			add()
			return reached(revision)
		}
		if err := each(revision); err != nil {
			if errors.Is(err, errComplete) {
				add() // this one begins a revision
			}
			return err
		}
		change := e.change()
		if revision > n.base && change.Prev == nil && e.Type != "ADDED" {
			return errSuperseded
		}
		pending = append(pending, change)
		return nil
	}, func() error {
		add() // the server sends whole revisions at once
		return nil
	})
	if err == nil {
		err = context.Cause(r.Context())
	}
	if err == nil {
		err = &failure{Code: http.StatusServiceUnavailable, Message: "The watch has ended. Try again."}
	}
	return err
}

// change returns the event as a change of a key.
func (e *watchEvent) change() *backend.Change {
	row := e.Object.row()
	switch {
	case e.Type == "DELETED":
		change := &backend.Change{Row: backend.Row{Key: row.Key, ModRevision: row.ModRevision, Deleted: true}}
		if e.Object.Value != nil {
			change.Prev = row
		}
		return change
	case e.Previous != nil:
		return &backend.Change{Row: *row, Prev: e.Previous.row()}
	}
	return &backend.Change{Row: *row}
}
