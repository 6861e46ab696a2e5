package paging

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// level returns one level of the tree of keys at a revision, as the writes give it.
func (h *history) level(prefix string, revision int64) (entries []string, keys int64) {
	counts := map[string]int64{}
	newest := map[string]written{}
	for _, w := range h.ops {
		if w.revision <= revision && w.revision > newest[w.key].revision && strings.HasPrefix(w.key, prefix) {
			newest[w.key] = w
		}
	}
	for key, w := range newest {
		if w.value == "" {
			continue
		}
		keys++
		name := fmt.Sprintf("%q@%d", key, w.revision)
		rest := strings.TrimPrefix(key[len(prefix):], "/")
		if cut := strings.IndexByte(rest, '/'); cut >= 0 {
			name = fmt.Sprintf("%q", key[:len(key)-len(rest)+cut+1])
		}
		counts[name]++
	}
	for name, n := range counts {
		entries = append(entries, fmt.Sprint(name, " ", n))
	}
	slices.Sort(entries)
	return entries, keys
}

// levels reads one level in pages of random sizes, each from a random replica, with changes in between.
func levels(t *testing.T, random *rand.Rand, all []*replica, h *history, prefix string, o ListOptions) (p TreePage) {
	for {
		o.Limit = 1 + random.Int64N(4)
		page, err := all[random.IntN(len(all))].pager.Tree(within(t), []byte(prefix), o)
		if err != nil {
			t.Fatalf("%q, %+v: %v", prefix, o, err)
		}
		if p.Revision != 0 && (page.Revision != p.Revision || page.Keys != p.Keys) {
			t.Errorf("%q: a page of %d keys at %d, after one of %d at %d", prefix, page.Keys, page.Revision, p.Keys,
				p.Revision)
		}
		if n := int64(len(page.Entries)); n > o.Limit || page.Continue != "" && n != o.Limit {
			t.Errorf("%q: %d entries for %+v", prefix, n, o)
		}
		p.Revision, p.Keys, p.Entries = page.Revision, page.Keys, append(p.Entries, page.Entries...)
		if page.Continue == "" {
			return p
		}
		o = ListOptions{Continue: page.Continue}
		h.change(t, random, all[random.IntN(len(all))])
	}
}

// TestTree reads levels at the current and at older revisions, and compares them with the writes.
func TestTree(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		var h history
		random := rand.New(rand.NewPCG(7, 8))
		for range 300 {
			h.change(t, random, all[random.IntN(len(all))])
		}
		several := 0
		for range 40 {
			prefix := append(prefixes, "/", "/p/a", "/p/../a/")[random.IntN(len(prefixes)+3)]
			o := ListOptions{}
			if random.IntN(2) == 0 {
				o = ListOptions{ResourceVersion: strconv.Itoa(2 + random.IntN(250)), ResourceVersionMatch: "Exact"}
			}
			p := levels(t, random, all, &h, prefix, o)
			var got []string
			for i := range p.Entries {
				e := &p.Entries[i]
				name := fmt.Sprintf("%q", e.Name)
				if e.Row != nil {
					name += fmt.Sprintf("@%d", e.Row.ModRevision)
				}
				got = append(got, fmt.Sprint(name, " ", e.Keys))
			}
			inOrder := slices.IsSortedFunc(p.Entries, func(a, b TreeEntry) int { return bytes.Compare(a.Name, b.Name) })
			want, keys := h.level(prefix, p.Revision)
			if slices.Sort(got); !slices.Equal(got, want) || p.Keys != keys || !inOrder {
				t.Errorf("%q at %d: %d keys,\n got %s\nwant %s with %d", prefix, p.Revision, p.Keys, got, want, keys)
			}
			if len(got) > 4 {
				several++
			}
		}
		if several < 5 {
			t.Errorf("%d levels had several pages", several)
		}
	})
}

// TestTreeExpired reads levels of revisions that are compacted, or do not belong to the prefix.
func TestTreeExpired(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		for i := range 5 {
			put(t, all[0], fmt.Sprintf("/p/%d/x", i), "v")
		}
		tree := func(prefix string, o ListOptions) (TreePage, error) {
			return all[0].pager.Tree(within(t), []byte(prefix), o)
		}
		first, err := tree("/p/", ListOptions{Limit: 2})
		if err != nil || len(first.Entries) != 2 || first.Keys != 5 || first.Continue == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		if _, err := tree("/q/", ListOptions{Continue: first.Continue}); !errors.Is(err, ErrInvalid) {
			t.Errorf("another prefix: %v", err)
		}
		now := put(t, all[0], "/p/new", "v")
		compact(t, all[0], now)
		_, err = tree("/p/", ListOptions{Continue: first.Continue})
		gone, ok := errors.AsType[*ExpiredError](err)
		if !ok {
			t.Fatalf("after the compaction: %v", err)
		}
		rest, err := tree("/p/", ListOptions{Continue: gone.Continue})
		if err != nil || len(rest.Entries) != 4 || string(rest.Entries[0].Name) != "/p/2/" || rest.Revision != now {
			t.Errorf("continued at the latest revision: %+v, %v", rest, err)
		}
	})
}
