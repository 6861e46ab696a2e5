package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestPreconditions creates, changes and deletes with and without the version that clients have seen.
func TestPreconditions(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		const key = "/registry/pods/default/nginx"
		put := func(value, version string) request {
			return request{method: http.MethodPut, url: s.url(key), body: putJSON(value, version)}
		}
		s.refused(t, http.StatusNotFound, "NotFound", request{url: s.url(key)})
		s.refused(t, http.StatusNotFound, "NotFound", put(`1`, "5"))
		s.refused(t, http.StatusNotFound, "NotFound", request{method: http.MethodDelete, url: s.url(key)})

		created := parse[item](t, s.must(t, http.StatusCreated, put(`{"a":1}`, "")))
		v1 := created.Metadata.ResourceVersion
		if m := created.Metadata; m.Key != key || m.Namespace != "/registry/pods/default/" || m.Name != "nginx" ||
			m.CreateRevision != v1 {
			t.Errorf("created %+v", m)
		}
		s.refused(t, http.StatusConflict, "AlreadyExists", put(`2`, ""))
		s.refused(t, http.StatusConflict, "AlreadyExists", put(`2`, "0"))
		s.refused(t, http.StatusConflict, "Conflict", put(`2`, number(created.revision()+1)))

		v2 := parse[item](t, s.must(t, http.StatusOK, put(`{"a":2}`, v1))).Metadata.ResourceVersion
		if v2 == v1 {
			t.Error("an update left the version as it was")
		}
		s.refused(t, http.StatusConflict, "Conflict", put(`3`, v1))
		s.refused(t, http.StatusConflict, "Conflict", request{
			method: http.MethodDelete,
			url:    s.url(key) + "?resourceVersion=" + v1,
		})
		s.refused(t, http.StatusConflict, "Conflict", request{
			method: http.MethodDelete, url: s.url(key),
			body: `{"preconditions":{"resourceVersion":"` + v1 + `"}}`,
		})

		// What a GET returns can be PUT back, through all replicas.
		for range 2 * len(s.servers) {
			s.must(t, http.StatusOK, request{method: http.MethodPut, url: s.url(key), body: s.must(t, http.StatusOK,
				request{url: s.url(key)})})
		}
		last := parse[item](t, s.must(t, http.StatusOK, request{url: s.url(key)}))
		if string(last.Value) != `{"a":2}` || last.Metadata.CreateRevision != v1 {
			t.Errorf("got %s made at %s, want the value put last, made at %s", last.Value, last.Metadata.CreateRevision,
				v1)
		}
		gone := parse[status](t, s.must(t, http.StatusOK, request{
			method: http.MethodDelete, url: s.url(key),
			body: `{"preconditions":{"resourceVersion":"` + last.Metadata.ResourceVersion + `"}}`,
		}))
		if gone.Status != "Success" || gone.Details.Name != key ||
			revisionOf(gone.Metadata.ResourceVersion) <= last.revision() {
			t.Errorf("deleted: %+v", gone)
		}
		s.refused(t, http.StatusNotFound, "NotFound", request{url: s.url(key)})
	})
}

// TestBadRequests sends invalid requests.
func TestBadRequests(t *testing.T) {
	s := startSQLite(t)
	s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url("there"), body: putJSON("1", "")})
	for _, r := range []request{
		{url: s.url("a/../b")},
		{url: s.url("./a")},
		{url: s.url("a/%2e%2e/b")},
		{url: s.url("?limit=-1")},
		{url: s.url("?limit=x")},
		{url: s.url("?limit=9223372036854775808")},
		{url: s.url("?watch=maybe")},
		{url: s.url("?resourceVersion=9223372036854775808")},
		{url: s.url("?resourceVersion=1.5")},
		{url: s.url("?resourceVersion=%201")},
		{url: s.url("?watch=true&allowWatchBookmarks=perhaps")},
		{url: s.url("?watch=true&timeoutSeconds=soon")},
		{url: s.url("?sendInitialEvents=true")},
		{url: s.url("there?resourceVersion=x")},
		{method: http.MethodPut, url: s.url("a"), body: `{"value":1,"valueBase64":"AA=="}`},
		{method: http.MethodPut, url: s.url("a"), body: `{}`},
		{method: http.MethodPut, url: s.url("a"), body: `{"value":1`},
		{method: http.MethodPut, url: s.url("a"), body: `{"value":1} {"value":2}`},
		{method: http.MethodPut, url: s.url("a"), body: `[]`},
		{method: http.MethodPut, url: s.url("a"), body: `{"valueBase64":"?"}`},
		{method: http.MethodPut, url: s.url("a"), body: `{"metadata":{"key":"b"},"value":1}`},
		{method: http.MethodPut, url: s.url("a"), body: `{"metadata":{"namespace":"b/"},"value":1}`},
		{method: http.MethodPut, url: s.url("a"), body: `{"metadata":{"name":"b"},"value":1}`},
		{method: http.MethodPut, url: s.url("a"), body: `{"metadata":{"resourceVersion":"x"},"value":1}`},
		{
			method: http.MethodPut, url: s.url("a") + "?resourceVersion=2",
			body: `{"metadata":{"resourceVersion":"3"},"value":1}`,
		},
		{method: http.MethodPut, url: s.url("a") + "?resourceVersion=-2", body: `{"value":1}`},
		{method: http.MethodDelete, url: s.url("there") + "?resourceVersion=x"},
	} {
		s.refused(t, http.StatusBadRequest, "BadRequest", r)
	}
	for _, r := range []request{
		{method: http.MethodPost, url: s.url("a"), body: "{}"},
		{method: http.MethodPatch, url: s.url("a"), body: "{}"},
		{method: http.MethodPut, url: s.url("a/"), body: putJSON("1", "")},
		{method: http.MethodDelete, url: s.url("a/")},
	} {
		s.refused(t, http.StatusMethodNotAllowed, "MethodNotAllowed", r)
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/object/a", "/v2/objects/a", "/metrics", "/readyz"} {
		s.refused(t, http.StatusNotFound, "NotFound", request{url: s.next() + path})
	}
	// None of it was written, and unknown parameters are ignored.
	body := s.must(t, http.StatusOK, request{url: s.url("?pretty=true&nobody=knows")})
	if n := strings.Count(body, `"key"`); n != 1 {
		t.Errorf("%d objects, want the one that is there: %s", n, body)
	}
}

// TestLongKeys serves keys that no entry of an index can hold.
func TestLongKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		long := strings.Repeat("k", 10_000)
		for _, key := range []string{long + "/b", long, long + "/a"} {
			s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url(key), body: putJSON("1", "")})
		}
		body := s.must(t, http.StatusOK, request{url: s.url(long + "/")})
		if n := strings.Count(body, `"key"`); n != 2 {
			t.Errorf("%d objects below a long prefix, want 2", n)
		}
		s.must(t, http.StatusOK, request{method: http.MethodDelete, url: s.url(long)})
		s.refused(t, http.StatusNotFound, "NotFound", request{url: s.url(long)})
	})
}

// TestCounter lets many clients count in one object, each at the version that it has seen: no count is lost, none
// counts twice.
func TestCounter(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		const clients, counts, key = 8, 25, "/counter"
		s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url(key), body: putJSON("0", "")})
		errs := make([]error, clients)
		seen := make([][]string, clients)
		var wg sync.WaitGroup
		for n := range clients {
			wg.Go(func() { seen[n], errs[n] = s.count(t.Context(), key, counts) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		last := parse[item](t, s.must(t, http.StatusOK, request{url: s.url(key)}))
		if string(last.Value) != fmt.Sprint(clients*counts) {
			t.Errorf("counted %s, want %d", last.Value, clients*counts)
		}
		versions := slices.Concat(seen...)
		slices.Sort(versions)
		if len(slices.Compact(versions)) != clients*counts {
			t.Error("two updates were acknowledged with one version")
		}
	})
}

// count increments the counter that many times and returns the acknowledged versions.
func (s *store) count(ctx context.Context, key string, times int) (versions []string, err error) {
	for len(versions) < times {
		_, body, err := s.do(ctx, request{url: s.url(key)})
		if err != nil {
			return nil, err
		}
		var before item
		var n int
		if err := errors.Join(json.Unmarshal([]byte(body), &before), json.Unmarshal(before.Value, &n)); err != nil {
			return nil, fmt.Errorf("GET: %w: %s", err, body)
		}
		code, body, err := s.do(ctx, request{method: http.MethodPut, url: s.url(key), body: putJSON(fmt.Sprint(n+1),
			before.Metadata.ResourceVersion)})
		switch {
		case err != nil:
			return nil, err
		case code == http.StatusOK:
			var after item
			if err := json.Unmarshal([]byte(body), &after); err != nil {
				return nil, err
			}
			versions = append(versions, after.Metadata.ResourceVersion)
		case code != http.StatusConflict:
			return nil, fmt.Errorf("PUT: %d %s", code, body)
		}
	}
	return versions, nil
}
