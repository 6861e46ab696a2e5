package etcdshim

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/store"
)

func TestGateway(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := httptest.NewServer(s.Gateway)
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	post := func(path, body string) *bufio.Reader {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return bufio.NewReader(resp.Body)
	}
	has := func(r *bufio.Reader, parts ...string) {
		t.Helper()
		line, _ := r.ReadString('\n') // a document that does not stream has no line end
		line = strings.ReplaceAll(line, " ", "")
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("%s has no %s", line, part)
			}
		}
	}
	events := post("/v3/watch", `{"create_request": {"key": "YQ=="}}`)
	has(events, `"created":true`)
	has(post("/v3/kv/put", `{"key": "YQ==", "value": "dg=="}`), `"revision":"2"`, `"cluster_id":"`)
	has(events, `"value":"dg=="`, `"revision":"2"`)
	has(post("/v3/kv/range", `{"key": "YQ=="}`), `"mod_revision":"2"`, `"count":"1"`)
	has(post("/v3/kv/range", `{}`), `"code":3`, `keyisnotprovided`)
	has(post("/v3/kv/txn", `{"success": [{"request_put": {"key": "Yg=="}}]}`), `"succeeded":true`, `"response_put"`)
	has(post("/v3/lock/lock", `{"name": "bA=="}`), `"key":"bC`)
	has(post("/v3/lease/keepalive", `{"ID": "5"}`), `"ID":"5"`)
}
