package semantics

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Run writes a history to the server and runs every case, in subtests "lists", "gets", "watches" and "tokens".
func Run(t *testing.T, s Server) {
	t.Helper()
	h := write(t, &s)
	t.Run("lists", h.lists)
	t.Run("gets", h.gets)
	t.Run("watches", h.watches)
	t.Run("tokens", h.tokens) // last, because it compacts
}

// atOnce is how many cases run concurrently: those above the current version wait for seconds.
const atOnce = 16

// answered is the answer to a case.
type answered[T any] struct {
	got T
	err error
}

// each calls ask for every case, several at once, and returns the answers.
func each[C, T any](cases []C, ask func(c C) (T, error)) []answered[T] {
	all := make([]answered[T], len(cases))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for n, c := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			all[n].got, all[n].err = ask(c)
		})
	}
	wg.Wait()
	return all
}

// name is the name of the subtest.
func (c Case) name() string {
	match := c.Match
	if match == "" {
		match = "no match"
	}
	return fmt.Sprintf("%s/%s/%s", match, c.Paging, c.Version)
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
	answers := each(cases, func(c Case) (*Page, error) { return h.list(t.Context(), c.query(h)) })
	for n, c := range cases {
		t.Run(c.name(), func(t *testing.T) { h.check(t, c, answers[n].got, answers[n].err) })
	}
}

// check compares an answer with the case.
func (h *history) check(t *testing.T, c Case, page *Page, err error) {
	want := h.wants(c.Want, c.Kube, c.Kube)
	// A kube-apiserver may answer from a snapshot in memory what its store has compacted.
	snapshot := h.Kube != nil && h.Kube.WatchCache && want == expired
	if snapshot && err == nil {
		want = ok
	}
	want.check(t, h.Kube, err)
	if page == nil || want != ok {
		return
	}
	if err := h.checkRevision(c, page.Revision); err != nil {
		t.Error(err)
		return
	}
	all := h.compacted.items
	if !snapshot {
		if all, err = h.at(t.Context(), page.Revision); err != nil {
			t.Fatal(err)
		}
	}
	if c.Outcome == ContinueToken {
		all = all[pageLimit:]
	}
	limits := c.Paging.Limits()
	if h.Kube != nil && h.Kube.WatchCache && c.Version == Zero && len(page.Items) == len(all) {
		limits = false // the watch cache may then ignore a limit
	}
	checkPage(t, page, all, limits)
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
	answers := each(cases, func(c Get) (Item, error) {
		name := "item-08"
		if c.Missing {
			name = "item-10" // was deleted
		}
		target := h.object(name)
		if v := h.version(c.Version); v != "" {
			target += "?resourceVersion=" + v
		}
		body, err := get(t.Context(), h.Client, target)
		if err != nil {
			return Item{}, err
		}
		return parseItem(body)
	})
	current := h.current.items[slices.IndexFunc(h.current.items, func(i Item) bool { return i.Name == "item-08" })]
	for n, c := range cases {
		t.Run(fmt.Sprintf("%s/missing %v", c.Version, c.Missing), func(t *testing.T) {
			a := answers[n]
			h.wants(c.Want, c.Kube, c.Cached).check(t, h.Kube, a.err)
			// The server has already shown the current state, and does not go back behind it.
			if a.err == nil && a.got.Revision != current.Revision {
				t.Errorf("got version %d, want %d", a.got.Revision, current.Revision)
			}
		})
	}
}
