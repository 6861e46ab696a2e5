package semantics

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Run writes a history to the server and runs every case against each replica, in subtests "lists", "gets", "watches"
// and "tokens".
func Run(t *testing.T, s Server) {
	t.Helper()
	h := write(t, &s)
	t.Run("lists", h.lists)
	t.Run("gets", h.gets)
	t.Run("watches", h.watches)
	t.Run("tokens", h.tokens) // last, because it compacts
}

// answered is a replica's answer to a case.
type answered struct {
	page *Page
	err  error
}

// atOnce is how many cases run concurrently: those above the current version wait for seconds.
const atOnce = 16

// each calls ask for that many cases at each replica, several at once, and returns when all are answered.
func each(lists []string, cases int, ask func(list string, n int) answered) map[string][]answered {
	all := map[string][]answered{}
	for _, list := range lists {
		all[list] = make([]answered, cases)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, list := range lists {
		for n := range cases {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				all[list][n] = ask(list, n)
			})
		}
	}
	wg.Wait()
	return all
}

// name is the name of the subtest.
func (c Case) name(replica int) string {
	match := c.Match
	if match == "" {
		match = "no match"
	}
	return fmt.Sprintf("%s/%s/%s/replica %d", match, c.Paging, c.Version, replica)
}

func (c Case) query(h *history) url.Values {
	q := url.Values{}
	if c.Match != "" {
		q.Set("resourceVersionMatch", c.Match)
	}
	if v := h.version(c.Version); v != "" {
		q.Set("resourceVersion", v)
	}
	if c.Paging.Limits() {
		q.Set("limit", strconv.Itoa(pageLimit))
	}
	if c.Paging.Continued() {
		q.Set("continue", h.token)
	}
	return q
}

func (h *history) lists(t *testing.T) {
	cases := Lists()
	answers := each(h.Lists, len(cases), func(list string, n int) answered {
		p, err := GetList(t.Context(), h.Client, list, cases[n].query(h))
		return answered{p, err}
	})
	for replica, list := range h.Lists {
		for n, c := range cases {
			t.Run(c.name(replica), func(t *testing.T) { h.check(t, c, list, answers[list][n]) })
		}
	}
}

// check compares an answer with the case.
func (h *history) check(t *testing.T, c Case, list string, a answered) {
	want := h.wants(c.Want, c.Kube, c.Kube)
	// A kube-apiserver may answer from a snapshot in memory what its store has compacted.
	snapshot := h.Kube != nil && h.Kube.WatchCache && want == expired
	if snapshot && a.err == nil {
		want = ok
	}
	want.check(t, h.Kube, a.err)
	if a.page == nil || want != ok {
		return
	}
	if err := h.checkRevision(c, a.page.Revision); err != nil {
		t.Error(err)
		return
	}
	all := h.compacted.items
	if !snapshot {
		var err error
		if all, err = h.at(t.Context(), list, a.page.Revision); err != nil {
			t.Fatal(err)
		}
	}
	if c.Outcome == ContinueToken {
		all = all[pageLimit:]
	}
	limits := c.Paging.Limits()
	if h.Kube != nil && h.Kube.WatchCache && c.Version == Zero && len(a.page.Items) == len(all) {
		limits = false // the watch cache may then ignore a limit
	}
	checkPage(t, a.page, all, limits)
}

// checkRevision checks the version of a list.
func (h *history) checkRevision(c Case, got int64) error {
	least, most := int64(1), int64(0)
	switch c.Outcome {
	case MostRecent:
		least = h.current.revision
	case Any:
	case NotOlderThan:
		least, _ = strconv.ParseInt(h.version(c.Version), 10, 64)
	case Exact:
		least, _ = strconv.ParseInt(h.version(c.Version), 10, 64)
		most = least
	case ContinueToken:
		least, most = h.old.revision, h.old.revision
	case Invalid:
		return fmt.Errorf("a list at %d", got)
	}
	if got < least || most > 0 && got > most {
		return fmt.Errorf("a list at %d, want one at %d or later, and not later than %d unless that is 0", got,
			least, most)
	}
	return nil
}

// checkPage checks that a page is a possible first page of all items, and that it reports what it omits.
func checkPage(t *testing.T, p *Page, all []Item, limited bool) {
	t.Helper()
	want := all
	if limited {
		want = all[:min(pageLimit, len(all))]
	}
	if !slices.Equal(p.Items, want) {
		t.Errorf("items %v, want %v", p.Items, want)
	}
	left := int64(len(all) - len(want))
	if (p.Continue != "") != (left > 0) {
		t.Errorf("continue %q with %d items left", p.Continue, left)
	}
	switch {
	case left == 0 && p.Remaining != nil:
		t.Errorf("remainingItemCount %d on the last page", *p.Remaining)
	case left > 0 && (p.Remaining == nil || *p.Remaining != left):
		t.Errorf("remainingItemCount %v, want %d", show(p.Remaining), left)
	}
}

func show(n *int64) string {
	if n == nil {
		return "unset"
	}
	return strconv.FormatInt(*n, 10)
}

func (h *history) gets(t *testing.T) {
	cases := Gets()
	type found struct {
		item Item
		err  error
	}
	ask := func(ctx context.Context, list string, c Get) (f found) {
		name := "item-08"
		if c.Missing {
			name = "item-10" // was deleted
		}
		target := h.object(list, name)
		if v := h.version(c.Version); v != "" {
			target += "?resourceVersion=" + v
		}
		body, err := get(ctx, h.Client, target)
		if err != nil {
			return found{err: err}
		}
		f.item, f.err = parseItem(body)
		return f
	}
	results := make([]found, len(h.Lists)*len(cases))
	each(h.Lists, len(cases), func(list string, n int) answered {
		results[slices.Index(h.Lists, list)*len(cases)+n] = ask(t.Context(), list, cases[n])
		return answered{}
	})
	current := h.current.items[slices.IndexFunc(h.current.items, func(i Item) bool { return i.Name == "item-08" })]
	for replica := range h.Lists {
		for n, c := range cases {
			t.Run(fmt.Sprintf("%s/missing %v/replica %d", c.Version, c.Missing, replica), func(t *testing.T) {
				r := results[replica*len(cases)+n]
				h.wants(c.Want, c.Kube, c.Cached).check(t, h.Kube, r.err)
				// Every replica has already shown the current state, and does not go back behind it.
				if r.err == nil && r.item.Revision != current.Revision {
					t.Errorf("got version %d, want %d", r.item.Revision, current.Revision)
				}
			})
		}
	}
}
