package console

import (
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
	counted   int64         // the revision that the keys were counted at
	following chan struct{} // holds an element while somebody adds changes, who alone uses next

	next position

	mu     sync.Mutex // of what follows
	facts  facts
	groups map[string]*tally.Top // without the fields
	fields *tally.Fields
}

// facts are what was counted, and when.
type facts struct {
	Revision int64     // whose state is counted
	Since    int64     // writes after this revision are counted
	At       time.Time // when Revision was the newest one
}

// position is how far changes were read: all those of revisions before its own, and the first events of that.
type position struct {
	revision int64
	events   int
}

// newCounted returns a counted of keys at a revision, with nothing counted yet.
func newCounted(revision int64) *counted {
	n := &counted{
		counted: revision, following: make(chan struct{}, 1), facts: facts{Revision: revision},
		groups: map[string]*tally.Top{}, fields: tally.NewFields(),
	}
	for i, name := range []func(key, value []byte) string{
		tally.ByPrefix("", prefixLevels), tally.ByKind, tally.ByNamespace,
	} {
		n.groups[groupings[i]] = tally.NewTop(tally.Bounded(mostGroups, name))
	}
	return n
}

// Facts returns what was counted.
func (n *counted) Facts() facts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.facts
}

// largest returns groups.
func (n *counted) largest(by, kind string, sort func(*tally.Group) int64, limit int) []tally.Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	if by == byField {
		return n.fields.Largest(kind, sort, limit)
	}
	return n.groups[by].Largest(sort, limit)
}

// kinds returns the kinds whose fields were counted.
func (n *counted) kinds() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fields.Kinds()
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

// add adds a change: to what was written, and, if it is newer than the keys that were counted, to what exists.
func (n *counted) add(change *backend.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	row := &change.Row
	newer := row.ModRevision > n.counted
	for _, top := range n.groups {
		top.Written(change)
		if newer && change.Prev != nil {
			top.Superseded(change.Prev)
		}
		if newer && !row.Deleted {
			top.Live(row)
		}
	}
	n.fields.Written(change)
	if newer && change.Prev != nil {
		n.fields.Superseded(change.Prev)
	}
	if newer && !row.Deleted {
		n.fields.Live(row)
	}
	n.facts.Revision = max(n.facts.Revision, row.ModRevision)
}

// Errors that end a watch.
var (
	errComplete = errors.New("complete")
	// errSuperseded means that nobody knows the size of a version that was superseded.
	errSuperseded = &failure{
		Code: http.StatusGone, exact: true, Message: "What has changed since this count is compacted: count again.",
	}
)

// writes adds the changes of the newest revisions up to that of the count, and calls added for each.
func (c *counter) writes(r *http.Request, n *counted, pace *pacer, added func()) error {
	var report struct {
		Compacted int64 `json:"compacted"`
	}
	if err := c.api.get(r, "/status", nil, &report); err != nil {
		return err
	}
	since := min(max(report.Compacted, n.counted-countedWrites, 1), n.counted)
	n.facts.Since, n.facts.At, n.next = since, time.Now(), position{revision: since + 1}
	if since == n.counted {
		return nil
	}
	read := int64(0)
	err := n.follow(r, c.api, func(e *watchEvent) error {
		if read = e.Object.Metadata.ResourceVersion; read > n.counted {
			return errComplete
		}
		added()
		return pace.pause()
	}, func() error {
		// Where the server flushes, it has sent all there is, or much of a large transaction. The rest of that is added
		// with what follows.
		if read >= n.counted {
			return errComplete
		}
		return nil
	})
	if errors.Is(err, errComplete) {
		return nil
	}
	return err
}

// follow watches from where the changes end that were added, and adds more until the request's context ends or it
// fails. before is called before a change is added, which an error prevents, and flushed where the server has sent all
// there is. Errors: theirs, [*failure].
func (n *counted) follow(r *http.Request, api api, before func(*watchEvent) error, flushed func() error) error {
	skip := n.next.events
	ask := url.Values{
		"watch": {"true"}, "previous": {"true"}, "resourceVersion": {strconv.FormatInt(n.next.revision-1, 10)},
	}
	return api.follow(r, objectsPath, ask, func(text []byte) error {
		var e watchEvent
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("count writes: %w", err)
		}
		if e.Type == "ERROR" {
			return &e.Object.failure
		}
		if revision := e.Object.Metadata.ResourceVersion; revision > n.next.revision {
			n.next, skip = position{revision: revision}, 0
		} else if skip > 0 {
			skip--
			return nil
		}
		change := e.change()
		if change.Row.ModRevision > n.counted && change.Prev == nil && e.Type != "ADDED" {
			return errSuperseded
		}
		if err := before(&e); err != nil {
			return err
		}
		n.next.events++
		n.add(change)
		return nil
	}, flushed)
}

// change returns the event as a change of a key.
func (e *watchEvent) change() *backend.Change {
	row := e.Object.row()
	switch {
	case e.Type == "DELETED":
		change := &backend.Change{Row: backend.Row{Key: row.Key, ModRevision: row.ModRevision, Deleted: true}}
		if e.Object.Value != nil || e.Object.ValueBase64 != nil {
			change.Prev = row
		}
		return change
	case e.Previous != nil:
		return &backend.Change{Row: *row, Prev: e.Previous.row()}
	}
	return &backend.Change{Row: *row}
}
