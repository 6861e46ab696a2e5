package semantics

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"testing"
)

// pageLimit cuts the lists of the history into three pages.
const pageLimit = 5

// aboveBy is the distance to a version that nobody reaches during a test.
const aboveBy = 1_000_000

// state is the content of a collection at a revision.
type state struct {
	revision int64
	items    []Item // by name
}

// history is what Run has written: three states, the first of which is compacted.
type history struct {
	*Server
	compacted, old, current state
	token                   string // after the first page of old
}

// write creates the history.
func write(t *testing.T, s *Server) *history {
	t.Helper()
	h := &history{Server: s}
	others := len(h.look(t).items) // as in a Kubernetes namespace, which has a ConfigMap from the start
	for i := range 12 {
		h.put(t, fmt.Sprintf("item-%02d", i))
	}
	h.compacted = h.look(t)
	h.put(t, "item-03")
	h.delete(t, "item-07")
	h.old = h.look(t)
	if err := s.Compact(t.Context(), h.old.revision); err != nil {
		t.Fatalf("compact: %v", err)
	}
	first := h.mustList(t, url.Values{"limit": {strconv.Itoa(pageLimit)}})
	if first.Revision < h.old.revision || first.Continue == "" {
		t.Fatalf("first page at %d, continue %q", first.Revision, first.Continue)
	}
	h.old.revision, h.token = first.Revision, first.Continue
	h.put(t, "item-01")    // on the first page
	h.put(t, "item-05-b")  // new, after it
	h.put(t, "item-08")    // changed, after it
	h.delete(t, "item-10") // deleted, after it
	h.put(t, "item-99")    // a new last one
	h.current = h.look(t)
	if len(h.compacted.items) != 12+others || len(h.old.items) != 11+others || len(h.current.items) != 12+others {
		t.Fatalf("the states have %d, %d and %d items, %d of others, want 12, 11 and 12", len(h.compacted.items),
			len(h.old.items), len(h.current.items), others)
	}
	return h
}

func (h *history) put(t *testing.T, name string) {
	t.Helper()
	if err := h.Put(t.Context(), name); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func (h *history) delete(t *testing.T, name string) {
	t.Helper()
	if err := h.Delete(t.Context(), name); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

// look lists everything: a server that has shown a state never goes back behind it.
func (h *history) look(t *testing.T) state {
	t.Helper()
	p := h.mustList(t, nil)
	return state{p.Revision, p.Items}
}

func (h *history) list(ctx context.Context, query url.Values) (*Page, error) {
	return GetList(ctx, h.Client, h.List, query)
}

// mustList is list for one that must succeed.
func (h *history) mustList(t *testing.T, query url.Values) *Page {
	t.Helper()
	p, err := h.list(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// version returns a resourceVersion of a kind.
func (h *history) version(v Version) string {
	switch v {
	case Zero:
		return "0"
	case Current:
		return strconv.FormatInt(h.current.revision, 10)
	case Old:
		return strconv.FormatInt(h.old.revision, 10)
	case Compacted:
		return strconv.FormatInt(h.compacted.revision, 10)
	case Above:
		return strconv.FormatInt(h.current.revision+aboveBy, 10)
	case Garbage:
		return "abc"
	case Negative:
		return "-1"
	default:
		return ""
	}
}

// at returns the content of the collection at a revision.
func (h *history) at(ctx context.Context, revision int64) ([]Item, error) {
	switch {
	case revision >= h.current.revision:
		return h.current.items, nil
	case revision == h.old.revision:
		return h.old.items, nil
	default: // a state in between, at which a server may be: read it another way
		p, err := h.list(ctx, url.Values{
			"resourceVersion":      {strconv.FormatInt(revision, 10)},
			"resourceVersionMatch": {"Exact"},
		})
		if err != nil {
			return nil, fmt.Errorf("list at %d: %w", revision, err)
		}
		return p.Items, nil
	}
}

// object returns the URL of an object.
func (h *history) object(name string) string {
	if h.Object == nil {
		return h.List + name
	}
	return h.Object(name)
}
