package console_test

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// sizes returns what the stream of a page of a level says: the bytes of its entries.
func (s *served) sizes(page *page, headers ...string) (all []string) {
	s.t.Helper()
	_, rest, _ := strings.Cut(page.body, `data-stream="`)
	path, _, _ := strings.Cut(rest, `"`)
	x := s.stream(html.UnescapeString(path), headers...)
	for {
		e, ok := x.next()
		switch {
		case !ok:
			s.t.Fatalf("no end after %q", all)
		case e.name == "done":
			return all
		case e.name == "failed":
			return append(all, e.data)
		}
		all = append(all, e.data)
	}
}

func (s *served) wantSizes(path string, want ...string) {
	s.t.Helper()
	var list []string
	for i, bytes := range want {
		list = append(list, fmt.Sprintf(`{"entry":%d,"bytes":"%s"}`, i, bytes))
	}
	if got := s.sizes(s.get(path).want(200)); !slices.Equal(got, list) {
		s.t.Errorf("%s: %s, want %s", path, got, list)
	}
}

// The bytes of a level are those of the keys and values at the revision of the page.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", strings.Repeat("x", 96))
	s.put("/a/2/x", strings.Repeat("x", 1000))
	old := s.put("/a/2/y", strings.Repeat("\xff", 1036))
	s.put("/a/1", "")
	s.put("/b", `{"a": 1}`)
	s.wantSizes("/browse", "2.0 KiB", "10 B")
	s.wantSizes("/browse?prefix=/a/", "4 B", "2.0 KiB")
	s.wantSizes(fmt.Sprintf("/browse?prefix=/a/&at=%d", old), "100 B", "2.0 KiB")
	s.get("/browse?prefix=/a").want(200).without("data-stream")  // the API does not list it
	s.get("/browse?prefix=/c/").want(200).without("data-stream") // nothing is there
	s.get("/browse").want(200, `id="count" hidden`)
	for _, query := range []string{"", "prefix=/a&revision=2", "prefix=/a/&revision=0", "prefix=/a/&revision=x"} {
		if e, _ := s.stream("/browse/sizes?" + query).next(); e.name != "failed" {
			t.Errorf("%q: %+v", query, e)
		}
	}
	page := s.get("/browse?prefix=/a/").want(200)
	last := s.put("/a/2/z", "")
	if _, err := s.client.Compact(s.within(), last); err != nil {
		t.Fatal(err)
	}
	if got := s.sizes(page); len(got) != 1 || !strings.Contains(got[0], "has been compacted") {
		t.Errorf("of a compacted revision: %s", got)
	}
}

// Each page of a level has the sizes of its own entries.
func TestSizesOfPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var all []clientv3.Op
	for i := range 210 {
		for j := range 6 {
			all = append(all, clientv3.OpPut(fmt.Sprintf("/%03d/%d", i, j), strings.Repeat("x", i)))
		}
	}
	for part := range slices.Chunk(all, 100) {
		if _, err := s.client.Txn(s.within()).Then(part...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for i := range 210 {
		list = append(list, fmt.Sprintf(`{"entry":%d,"bytes":"%s"}`, i%200, humanize.IBytes(uint64(6*(6+i)))))
	}
	first := s.get("/browse")
	if got := s.sizes(first); !slices.Equal(got, list[:200]) {
		t.Errorf("first page: %s", got)
	}
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	if got := s.sizes(s.get(html.UnescapeString(next))); !slices.Equal(got, list[200:]) {
		t.Errorf("second page: %s", got)
	}
}

// Who may read a prefix sees its sizes, and no others.
func TestRightsToSizes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", "x")
	s.put("/b/1", "x")
	s.users()
	mine := s.signIn()
	page := s.get("/browse?prefix=/a/", mine).want(200)
	if got := s.sizes(page, mine); !slices.Equal(got, []string{`{"entry":0,"bytes":"5 B"}`}) {
		t.Error(got)
	}
	page.body = strings.ReplaceAll(page.body, "%2Fa%2F", "%2Fb%2F")
	if got := s.sizes(page, mine); len(got) != 1 || !strings.Contains(got[0], "may not list") {
		t.Errorf("of another prefix: %s", got)
	}
}
