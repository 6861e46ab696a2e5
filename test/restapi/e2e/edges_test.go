package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLeaseStays changes an object that etcd's API has attached to a lease: it stays attached, and is deleted with the
// lease.
func TestLeaseStays(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		lease, err := s.etcd.Grant(t.Context(), 600)
		if err != nil {
			t.Fatal(err)
		}
		put, err := s.etcd.Put(t.Context(), "/leased", "1", clientv3.WithLease(lease.ID))
		if err != nil {
			t.Fatal(err)
		}
		changed := s.must(t, http.StatusOK, request{
			method: http.MethodPut, url: s.url("/leased"),
			body: putJSON("2", number(put.Header.Revision)),
		})
		res, err := s.etcd.Get(t.Context(), "/leased")
		if err != nil || len(res.Kvs) != 1 || res.Kvs[0].Lease != int64(lease.ID) || string(res.Kvs[0].Value) != "2" {
			t.Errorf("%v %v, want the value 2 under lease %d", res, err, lease.ID)
		}
		w := s.openWatch(t.Context(), t, s.url("/leased")+"?watch=true&resourceVersion="+versionOf(changed))
		if _, err := s.etcd.Revoke(t.Context(), lease.ID); err != nil {
			t.Fatal(err)
		}
		if e := next(t, w); e.Type != "DELETED" {
			t.Errorf("told of %s, want DELETED", e.Type)
		}
		s.refused(t, http.StatusNotFound, "NotFound", request{url: s.url("/leased")})
	})
}

// TestNoSpace fills the quota: writes are refused with 503 and a reason, reads and deletions continue.
func TestNoSpace(t *testing.T) {
	s := startSQLite(t, "--quota-backend-bytes", "4194304")
	value := putJSON(`"`+strings.Repeat("x", 1<<20)+`"`, "")
	n := 0
	for code := http.StatusCreated; code == http.StatusCreated; n++ {
		if n == 50 {
			t.Fatal("50 MiB fit in a quota of 4 MiB")
		}
		var err error
		if code, _, err = s.do(t.Context(), request{
			method: http.MethodPut, url: s.url(fmt.Sprintf("big/%d", n)),
			body: value,
		}); err != nil {
			t.Fatal(err)
		}
	}
	full := s.refused(t, http.StatusServiceUnavailable, "ServiceUnavailable", request{
		method: http.MethodPut,
		url:    s.url("more"), body: putJSON("1", ""),
	})
	if !strings.Contains(strings.ToLower(full.Message), "space") {
		t.Errorf("refused with %q, want that it says why", full.Message)
	}
	s.must(t, http.StatusOK, request{url: s.url("big/0")})
	s.must(t, http.StatusOK, request{url: s.url("big/?limit=1")})
	s.must(t, http.StatusOK, request{method: http.MethodDelete, url: s.url("big/0")})
}

// TestHalfAList kills the server while it sends a list: the client notices that the answer is incomplete.
func TestHalfAList(t *testing.T) {
	s := startSQLite(t)
	value := strings.Repeat("x", 1<<20)
	for i := range 48 {
		if _, err := s.etcd.Put(t.Context(), fmt.Sprintf("/big/%d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/big/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.CopyN(io.Discard, res.Body, 1<<20); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", res.Status, err)
	}
	s.servers[0].Kill()
	rest, err := io.Copy(io.Discard, res.Body)
	if err == nil {
		t.Errorf("the answer ends after %d bytes more as if it were whole", rest)
	}
	s.servers[0].Restart(t)
	if body := s.must(t, http.StatusOK, request{url: s.url("/big/")}); strings.Count(body, `"key"`) != 48 {
		t.Errorf("%d objects, want 48", strings.Count(body, `"key"`))
	}
}

// TestHeaders checks the headers of an answer.
func TestHeaders(t *testing.T) {
	s := startSQLite(t)
	s.must(t, http.StatusCreated, request{method: http.MethodPut, url: s.url("a/b"), body: putJSON("1", "")})
	ask := func(method, url string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || (method == http.MethodHead) != (len(body) == 0) {
			t.Errorf("%s %s: a body of %d bytes, %v", method, url, len(body), err)
		}
		return res
	}
	for _, path := range []string{"a/b", "a/", "none", "?limit=x"} {
		get, head := ask(http.MethodGet, s.url(path)), ask(http.MethodHead, s.url(path))
		if get.StatusCode != head.StatusCode {
			t.Errorf("%s: GET is %d, HEAD %d", path, get.StatusCode, head.StatusCode)
		}
		for _, res := range []*http.Response{get, head} {
			if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
				t.Errorf("%s %s: Content-Type %q", res.Request.Method, path, kind)
			}
		}
	}
	for path, allow := range map[string][]string{"a/b": {"GET", "HEAD", "PUT", "DELETE"}, "a/": {"GET", "HEAD"}} {
		got := ask(http.MethodPost, s.url(path)).Header.Get("Allow")
		for _, method := range allow {
			if !strings.Contains(got, method) {
				t.Errorf("%s: Allow is %q, want %v", path, got, allow)
			}
		}
		if path == "a/" && strings.Contains(got, "PUT") {
			t.Errorf("%s: Allow is %q", path, got)
		}
	}
	if res := ask(http.MethodGet, s.next()+"/openapi.json"); res.StatusCode != http.StatusOK {
		t.Errorf("/openapi.json: %s", res.Status)
	}
}
