package semantics

import (
	"net/url"
	"strconv"
	"testing"
)

// tokens follows a list by its tokens, also across a compaction, and with invalid tokens.
func (h *history) tokens(t *testing.T) {
	t.Run("all pages", h.allPages)
	t.Run("not a token", func(t *testing.T) {
		for _, token := range []string{
			"x", "AAAA", "e30", "~~~", h.token[1:], h.token[:len(h.token)-1], h.token + "A",
		} {
			_, err := h.list(t.Context(), url.Values{"continue": {token}, "limit": {"5"}})
			badRequest.check(t, h.Kube, err)
		}
	})
	t.Run("compacted", h.compactedToken)
}

func (h *history) allPages(t *testing.T) {
	var items []Item
	query, revision := url.Values{"limit": {"2"}}, int64(0)
	for page := 0; ; page++ {
		p := h.mustList(t, query)
		items = append(items, p.Items...)
		if revision == 0 {
			revision = p.Revision
			h.put(t, "item-04-b") // between the pages: no page shows it
		}
		if p.Revision != revision || len(p.Items) > 2 {
			t.Errorf("page %d at %d with %d items, want %d and no more than 2", page, p.Revision,
				len(p.Items), revision)
		}
		if p.Continue == "" {
			break
		}
		if want := int64(len(h.current.items) - len(items)); p.Remaining == nil || *p.Remaining != want {
			t.Errorf("page %d: remainingItemCount %s, want %d", page, show(p.Remaining), want)
		}
		query.Set("continue", p.Continue)
	}
	checkPage(t, &Page{Items: items}, h.current.items, false)
	h.current = h.look(t)
}

// compactedToken continues a list after its revision has been compacted.
func (h *history) compactedToken(t *testing.T) {
	h.mustList(t, url.Values{"continue": {h.token}}) // the token expires now
	if err := h.Compact(t.Context(), h.current.revision); err != nil {
		t.Fatalf("compact: %v", err)
	}
	all := h.current.items[indexAfter(h.current.items, h.old.items[pageLimit-1].Name):]
	p, err := h.list(t.Context(), url.Values{"continue": {h.token}, "limit": {"5"}})
	if h.Kube != nil && h.Kube.WatchCache && err == nil {
		checkPage(t, p, h.old.items[pageLimit:], true) // from its own snapshot
	} else {
		h.checkInconsistent(t, err, all)
	}
	if h.Kube == nil {
		_, err := h.list(t.Context(), url.Values{
			"resourceVersion": {h.version(Old)}, "resourceVersionMatch": {"Exact"},
		})
		h.checkInconsistent(t, err, h.current.items)
	}
}

// checkInconsistent checks that a list has expired, and continues it at the latest version.
func (h *history) checkInconsistent(t *testing.T, err error, all []Item) {
	t.Helper()
	expired.check(t, h.Kube, err)
	f := asFailure(err)
	if f == nil || f.Continue == "" {
		t.Fatalf("%v, without a token to continue with", err)
	}
	p := h.mustList(t, url.Values{"continue": {f.Continue}, "limit": {strconv.Itoa(pageLimit)}})
	if p.Revision < h.current.revision {
		t.Errorf("continued at %d, want the latest version, %d", p.Revision, h.current.revision)
	}
	checkPage(t, p, all, true)
	if p.Continue == "" {
		return
	}
	rest := h.mustList(t, url.Values{"continue": {p.Continue}})
	if rest.Revision != p.Revision {
		t.Errorf("the page after it is at %d, want %d", rest.Revision, p.Revision)
	}
	checkPage(t, rest, all[pageLimit:], false)
}

// indexAfter returns the index of the first item after a name.
func indexAfter(items []Item, name string) int {
	for i, item := range items {
		if item.Name > name {
			return i
		}
	}
	return len(items)
}
