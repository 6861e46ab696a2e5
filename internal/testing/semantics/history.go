package semantics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
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
	h, ctx := &history{Server: s}, t.Context()
	others := len(h.look(t).items) // as in a Kubernetes namespace, which has a ConfigMap from the start
	for i := range 12 {
		h.put(t, fmt.Sprintf("item-%02d", i))
	}
	h.compacted = h.look(t)
	h.put(t, "item-03")
	h.delete(t, "item-07")
	h.old = h.look(t)
	if err := s.Compact(ctx, h.old.revision); err != nil {
		t.Fatalf("compact: %v", err)
	}
	first, err := GetList(ctx, s.Client, s.Lists[0], url.Values{"limit": {strconv.Itoa(pageLimit)}})
	if err != nil {
		t.Fatal(err)
	}
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

// look lists everything at every replica: a replica that has shown a state never goes back behind it.
func (h *history) look(t *testing.T) state {
	t.Helper()
	var found state
	for i, list := range h.Lists {
		p, err := GetList(t.Context(), h.Client, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !slices.Equal(p.Items, found.items) {
			t.Fatalf("%s lists %v, the replica before it %v", list, p.Items, found.items)
		}
		found = state{p.Revision, p.Items}
	}
	return found
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
func (h *history) at(ctx context.Context, list string, revision int64) ([]Item, error) {
	switch {
	case revision >= h.current.revision:
		return h.current.items, nil
	case revision == h.old.revision:
		return h.old.items, nil
	default: // a state in between, at which a replica may be: read it another way
		p, err := GetList(ctx, h.Client, list, url.Values{
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
func (h *history) object(list, name string) string {
	if h.Object == nil {
		return list + name
	}
	return h.Object(list, name)
}

// Collection returns hooks for a collection of sqlstore's own API. They write its objects through the replicas in turn.
func Collection(client *http.Client, lists []string) (put, del func(ctx context.Context, name string) error) {
	var turn, contents atomic.Int64
	next := func() string { return lists[int(turn.Add(1))%len(lists)] }
	put = func(ctx context.Context, name string) error {
		target := next() + name
		value := fmt.Sprintf(`{"value":{"name":%q,"contents":%d}`, name, contents.Add(1))
		old, err := get(ctx, client, target)
		if f, isFailure := errors.AsType[*Failure](err); isFailure && f.Code == http.StatusNotFound {
			return Send(ctx, client, http.MethodPut, target, value+"}")
		}
		if err != nil {
			return err
		}
		item, err := parseItem(old)
		if err != nil {
			return err
		}
		return Send(ctx, client, http.MethodPut, target, fmt.Sprintf(`%s,"metadata":{"resourceVersion":"%d"}}`, value,
			item.Revision))
	}
	return put, func(ctx context.Context, name string) error {
		return Send(ctx, client, http.MethodDelete, next()+name, "")
	}
}
