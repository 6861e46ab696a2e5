package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// TestChunksUnderWriters walks lists of thousands of objects in many prefixes, each page from another replica, while
// writers write: all pages have one resource version, and together they are exactly what etcd's API shows of that
// version.
func TestChunksUnderWriters(t *testing.T) {
	const objects = 6000
	onEach(t, func(t *testing.T, s *store) {
		s.fill(t, objects)
		w := s.write(t, objects, false)
		for _, c := range []struct {
			prefix string
			limit  int
		}{{"/load/", 500}, {"/load/", 77}, {"", 1000}, {"/load/namespace-1/", 7}, {"/load/", 100_000}, {"/load/", 0}} {
			t.Run(fmt.Sprintf("%s by %d", c.prefix, c.limit), func(t *testing.T) {
				revision, items := s.walk(t, c.prefix, c.limit, true)
				s.compare(t, c.prefix, revision, items)
			})
		}
		w.stop(t)
	})
}

// walk lists a prefix in chunks of a limit; 0 is none. With written it waits for writes between the first pages.
func (s *store) walk(t *testing.T, prefix string, limit int, written bool) (revision int64, all []semantics.Item) {
	t.Helper()
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	var left []int64 // remainingItemCount of each page
	var sizes []int
	for {
		p, err := semantics.GetList(t.Context(), s.client, s.url(prefix), query)
		if err != nil {
			t.Fatalf("page %d: %v", len(sizes), err)
		}
		if revision == 0 {
			revision = p.Revision
		}
		if p.Revision != revision {
			t.Fatalf("page %d at %d, the first one at %d", len(sizes), p.Revision, revision)
		}
		all = append(all, p.Items...)
		sizes = append(sizes, len(all))
		if p.Continue == "" {
			break
		}
		if len(p.Items) != limit || p.Remaining == nil {
			t.Fatalf("page %d of %d with %d items and remainingItemCount %v", len(sizes), limit, len(p.Items),
				p.Remaining)
		}
		left = append(left, *p.Remaining)
		if written && len(sizes) < 5 { // no page shows what is written between two pages
			s.passes(t.Context(), t, revision+int64(len(sizes)))
		}
		query.Set("continue", p.Continue)
	}
	for i, n := range left {
		if want := int64(len(all) - sizes[i]); n != want {
			t.Errorf("page %d: remainingItemCount %d, but %d followed", i, n, want)
		}
	}
	return revision, all
}

// compare compares the objects of a list with those that etcd's API has at its version.
func (s *store) compare(t *testing.T, prefix string, revision int64, items []semantics.Item) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	res, err := s.etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, len(res.Kvs))
	for i, kv := range res.Kvs {
		want[i] = fmt.Sprintf("%s %d %d %q", kv.Key, kv.ModRevision, kv.CreateRevision, kv.Value)
	}
	got := make([]string, len(items))
	for i, raw := range items {
		o := parse[item](t, raw.Raw)
		got[i] = fmt.Sprintf("%s %s %s %q", o.Metadata.Key, o.Metadata.ResourceVersion, o.Metadata.CreateRevision,
			o.bytes())
	}
	if !slices.Equal(got, want) {
		t.Errorf("at %d: %d objects, etcd's API has %d%s", revision, len(got), len(want), difference(got, want))
	}
}

// difference shows where two lists diverge.
func difference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("; object %d is %s, want %s", i, got[i], want[i])
		}
	}
	return ""
}

// TestCompactionOvertakesList compacts between two pages, while writers write: the list continues with the token of the
// refusal, at the latest version, misses no object that existed throughout, and shows none of them twice.
func TestCompactionOvertakesList(t *testing.T) {
	const objects, limit = 3000, 250
	onEach(t, func(t *testing.T, s *store) {
		s.fill(t, objects)
		w := s.write(t, objects/10, false) // the writers leave the others alone
		first, err := semantics.GetList(t.Context(), s.client, s.url("/load/"),
			url.Values{"limit": {fmt.Sprint(limit)}})
		if err != nil {
			t.Fatal(err)
		}
		s.compactAfter(t, first.Revision)
		again := s.refused(t, http.StatusGone, "Expired", request{url: s.url("/load/") + "?" + url.Values{
			"limit": {fmt.Sprint(limit)}, "continue": {first.Continue},
		}.Encode()})
		names := namesOf(first.Items)
		for token := again.Metadata.Continue; token != ""; {
			p, err := semantics.GetList(t.Context(), s.client, s.url("/load/"), url.Values{
				"limit":    {fmt.Sprint(limit)},
				"continue": {token},
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.Revision <= first.Revision {
				t.Errorf("continued at %d, the compacted list was at %d", p.Revision, first.Revision)
			}
			names = append(names, namesOf(p.Items)...)
			token = p.Continue
		}
		w.stop(t)
		found := map[string]int{}
		for _, name := range names {
			found[name]++
		}
		for i := objects / 10; i < objects; i++ {
			if n := found[fmt.Sprintf("name-%d", i)]; n != 1 {
				t.Errorf("object %d existed throughout and appeared %d times", i, n)
			}
		}
	})
}

// compactAfter compacts after a revision, once writers have passed it.
func (s *store) compactAfter(t *testing.T, revision int64) {
	t.Helper()
	res, err := s.etcd.Put(t.Context(), "compact", "here")
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Revision <= revision {
		t.Fatalf("a write at %d after a list at %d", res.Header.Revision, revision)
	}
	if err := s.compact(t.Context(), res.Header.Revision); err != nil {
		t.Fatal(err)
	}
}

func namesOf(items []semantics.Item) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Name
	}
	return names
}
