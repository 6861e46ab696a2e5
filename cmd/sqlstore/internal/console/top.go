package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

// mostTop is how many groups the page shows, and mostKinds of how many kinds it offers the fields.
const (
	mostTop   = 100
	mostKinds = 1000
)

// topped is the data of the page of what fills the store.
type topped struct {
	facts

	Done     bool // there is a result
	By, Sort string
	Kind     string // whose fields are shown, "" for all
	Kinds    []string
	Bys      []string
	Groups   []tally.Group
	More     bool      // there are more groups
	Running  *progress // nil if no count goes on
	Failed   *failure
}

// top shows what fills the store and what writes most, as it was counted last.
func (c *Console) top(r *http.Request) (view, error) {
	if err := c.mayCount(r); err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	t := topped{By: q.Get("by"), Sort: q.Get("sort"), Kind: q.Get("kind"), Bys: groupings}
	if !slices.Contains(groupings, t.By) {
		t.By = groupings[0]
	}
	if t.By != byField {
		t.Kind = ""
	}
	sort := tally.Sorts[t.Sort]
	if sort == nil {
		t.Sort = "bytes"
		sort = tally.Sorts[t.Sort]
	}
	last := c.counter.state()
	t.Running, t.Failed = last.running, last.failed[countOfTop]
	if n := last.last; n != nil {
		n.read(func(of facts) {
			t.facts, t.Done = of, true
			t.Groups = n.largest(t.By, t.Kind, sort, mostTop+1)
			t.Kinds = n.fields.Kinds()
		})
		t.Kinds = t.Kinds[:min(len(t.Kinds), mostKinds)]
		if t.More = len(t.Groups) > mostTop; t.More {
			t.Groups = t.Groups[:mostTop]
		}
	}
	return view{page: "top", title: "Top", data: &t}, nil
}

// Ago returns how long ago that was.
func (t *topped) Ago() int64 { return int64(time.Since(t.At).Seconds()) }

// heading is a column that the page can be sorted by.
type heading struct {
	Text, Href string
	Sorted     bool
}

// column returns the heading of a column.
func column(t *topped, sort, text string) heading {
	return heading{text, link("/top", "by", t.By, "kind", t.Kind, "sort", sort), t.Sort == sort}
}

// Heading is that of the groups.
func (t *topped) Heading() string { return strings.ToUpper(t.By[:1]) + t.By[1:] }

// IsKind reports whether a group is a kind, whose fields can be shown.
func (t *topped) IsKind(name string) bool { return t.By == byKind && name != tally.Others }

// IsPrefix reports whether a group is a prefix to browse.
func (t *topped) IsPrefix(name string) bool { return t.By == byPrefix && name != tally.Others }

// count begins a count.
func (c *Console) count(r *http.Request) (view, error) {
	if err := c.mayCount(r); err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	explain := func(err error) *failure { return c.asFailure(r, err) }
	c.counter.start(c.stopping, r, countOfTop, &progress{}, c.counter.count, explain)
	return view{to: link("/top", "by", q.Get("by"), "kind", q.Get("kind"), "sort", q.Get("sort"))}, nil
}

// mayCount refuses users who may not read everything: a count has the names of all prefixes. Errors: [*failure].
func (c *Console) mayCount(r *http.Request) error {
	var l level
	return c.api.get(r, treePath, url.Values{"limit": {"1"}}, &l)
}
