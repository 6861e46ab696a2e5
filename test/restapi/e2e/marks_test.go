package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// openWatch begins a watch that ends with the test.
func (s *store) openWatch(ctx context.Context, t *testing.T, url string) *semantics.Stream {
	t.Helper()
	w, err := semantics.OpenWatch(ctx, s.client, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// next reads an event that is neither an error nor the end.
func next(t *testing.T, w *semantics.Stream) semantics.Event {
	t.Helper()
	e, err := w.Next()
	if err != nil {
		t.Fatal(err)
	}
	if e.Failure != nil {
		t.Fatal(e.Failure)
	}
	return e
}

// TestBookmarks resumes a watch of a quiet collection from a bookmark, after a compaction that only the bookmark has
// passed.
func TestBookmarks(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		first := parse[item](t, s.must(t, http.StatusCreated, request{
			method: http.MethodPut, url: s.url("/quiet/a"),
			body: putJSON("1", ""),
		}))
		w := s.openWatch(ctx, t, s.url("/quiet/")+"?watch=true&allowWatchBookmarks=true&resourceVersion="+
			number(first.revision()))
		var elsewhere int64
		for i := range 20 {
			res, err := s.etcd.Put(ctx, fmt.Sprintf("/loud/%d", i), "")
			if err != nil {
				t.Fatal(err)
			}
			elsewhere = res.Header.Revision
		}
		mark := next(t, w)
		for ; mark.Revision < elsewhere; mark = next(t, w) {
			if mark.Type != "BOOKMARK" || mark.End {
				t.Fatalf("told of %+v, want bookmarks", mark)
			}
		}
		if err := s.compact(ctx, elsewhere); err != nil {
			t.Fatal(err)
		}
		s.refused(t, http.StatusGone, "Expired",
			request{url: s.url("/quiet/") + "?watch=true&resourceVersion=" + number(first.revision())})
		resumed := s.openWatch(ctx, t, s.url("/quiet/")+"?watch=true&resourceVersion="+number(mark.Revision))
		s.must(t, http.StatusOK, request{
			method: http.MethodPut, url: s.url("/quiet/a"),
			body: putJSON("2", number(first.revision())),
		})
		if e := next(t, resumed); e.Type != "MODIFIED" || e.Name != "a" {
			t.Errorf("told of %+v, want the change of a", e)
		}
		// The first watch has been there all the time.
		e := next(t, w)
		for ; e.Type == "BOOKMARK"; e = next(t, w) {
		}
		if e.Type != "MODIFIED" || e.Name != "a" {
			t.Errorf("told of %+v, want the change of a", e)
		}
	}, "--watch-progress-notify-interval", "100ms")
}

// TestInitialEvents begins watches with the state of thousands of objects, while writers write: the state is that of
// the bookmark's version, and the events after it lead to the state at the end.
func TestInitialEvents(t *testing.T) {
	const objects = 3000
	onEach(t, func(t *testing.T, s *store) {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		s.fill(t, objects)
		w := s.write(t, objects, false)
		type told struct {
			state []semantics.Item
			at    int64
			watch *semantics.Stream
		}
		all := make([]told, 3)
		for n := range all {
			all[n].watch = s.openWatch(ctx, t,
				s.url("/load/")+
					"?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
			for e := next(t, all[n].watch); ; e = next(t, all[n].watch) {
				if e.End {
					all[n].at = e.Revision
					break
				}
				if e.Type != "ADDED" {
					t.Fatalf("%s of %s within the state", e.Type, e.Name)
				}
				all[n].state = append(all[n].state, semantics.Item{Name: e.Name, Revision: e.Revision, Raw: e.Raw})
			}
		}
		w.stop(t)
		last, err := s.etcd.Put(ctx, "/load/zz-last", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, told := range all {
			s.compare(t, "/load/", told.at, told.state)
			want := s.changes(ctx, t, "/load/", told.at+1, last.Header.Revision)
			var got []string
			for e := next(t, told.watch); ; e = next(t, told.watch) {
				if e.Type != "BOOKMARK" {
					got = append(got, fmt.Sprintf("%d %s %s", e.Revision, e.Type, e.Name))
				}
				if e.Name == "zz-last" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d events behind the state at %d, etcd's API tells of %d%s", len(got), told.at, len(want),
					difference(got, want))
			}
		}
	})
}

// TestWatchOne watches a single key through its life.
func TestWatchOne(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url("/a/b"), body: putJSON("1", "")})
		w := s.openWatch(t.Context(), t, s.url("/a/b")+"?watch=true")
		e := next(t, w)
		first := e
		for _, key := range []string{"/a/b-beside", "/a/b/below", "/a/a"} {
			s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url(key), body: putJSON("1", "")})
		}
		changed := parse[item](t, s.must(t, http.StatusOK, request{
			method: http.MethodPut, url: s.url("/a/b"),
			body: putJSON(`{"x":"<&>"}`, number(e.Revision)),
		}))
		gone := parse[status](t, s.must(t, http.StatusOK, request{method: http.MethodDelete, url: s.url("/a/b")}))
		s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url("/a/b"), body: putJSON("2", "")})
		want := []string{"ADDED", "MODIFIED", "DELETED", "ADDED"}
		values := []string{`1`, `{"x":"<&>"}`, `{"x":"<&>"}`, `2`}
		for i := range want {
			if i > 0 {
				e = next(t, w)
			}
			if o := parse[item](t, e.Raw); e.Type != want[i] || o.Metadata.Key != "/a/b" ||
				string(o.Value) != values[i] {
				t.Errorf("event %d is %s of %s, want %s with value %s", i, e.Type, e.Raw, want[i], values[i])
			}
			if i == 2 && (number(e.Revision) != gone.Metadata.ResourceVersion || e.Revision <= changed.revision()) {
				t.Errorf("DELETED at %d, the answer to the request says %s", e.Revision, gone.Metadata.ResourceVersion)
			}
		}
		short := s.openWatch(t.Context(), t, s.url("/a/b")+"?watch=true&timeoutSeconds=1&resourceVersion="+
			number(e.Revision))
		if e, err := short.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after its time the watch says %v %v, want its end", e, err)
		}
		if first.Type != "ADDED" {
			t.Errorf("began with %s", first.Type)
		}
	})
}
