package etcdshim

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/sqlstore/sqlstore/internal/store"
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

// A websocket also serves a stream: each message is one document.
func TestGatewayWebsocket(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := httptest.NewServer(s.Gateway)
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	socket, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws"+strings.TrimPrefix(web.URL, "http")+"/v3/watch",
		nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("status %s", resp.Status)
	}
	if err := socket.WriteMessage(websocket.TextMessage, []byte(`{"create_request": {"key": "YQ=="}}`)); err != nil {
		t.Fatal(err)
	}
	has := func(part string) {
		t.Helper()
		_, message, err := socket.ReadMessage()
		if err != nil || !strings.Contains(strings.ReplaceAll(string(message), " ", ""), part) {
			t.Errorf("got %s, %v; want %s", message, err, part)
		}
	}
	has(`"created":true`)
	s.put(t, "a", "v")
	has(`"value":"dg=="`)
}

// The errors of locks and elections have etcd's codes: etcd serves these services as its own client.
func TestGatewayErrors(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	web := httptest.NewServer(s.Gateway)
	t.Cleanup(web.Close)
	for _, c := range []struct{ path, body, timeout, want string }{
		{
			"/v3/lock/lock", `{"name": "bA==", "lease": "99"}`, "",
			`500 {"code":2,"message":"etcdserver: requested lease not found"}`,
		},
		{"/v3/lock/unlock", `{}`, "", `500 {"code":2,"message":"etcdserver: key is not provided"}`},
		{
			"/v3/election/campaign", `{"name": "bA==", "lease": "99"}`, "",
			`500 {"code":2,"message":"etcdserver: requested lease not found"}`,
		},
		{"/v3/election/proclaim", `{"leader": {}}`, "", `500 {"code":2,"message":"etcdserver: key is not provided"}`},
		{"/v3/election/resign", `{"leader": {}}`, "", `500 {"code":2,"message":"etcdserver: key is not provided"}`},
		{"/v3/election/leader", `{"name": "bA=="}`, "", `500 {"code":2,"message":"election: no leader"}`},
		{
			"/v3/election/observe", `{"name": "bA=="}`, "50m",
			`504 {"error":{"code":4,"message":"context deadline exceeded"}}`,
		},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.timeout != "" {
			req.Header.Set("Grpc-Timeout", c.timeout)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		text := strings.NewReplacer(`, "`, `,"`, `": `, `":`).Replace(strings.TrimSpace(string(body)))
		if got := fmt.Sprint(resp.StatusCode, " ", text); err != nil || got != c.want {
			t.Errorf("%s %s: %s, %v, want %s", c.path, c.body, got, err, c.want)
		}
	}
}

// The limit of streams counts for each connection of the gateway's clients, not for all together.
func TestGatewayStreamsOfOthers(t *testing.T) {
	s := serve(t, Options{MaxConcurrentStreams: 1}, store.Config{})
	web := httptest.NewServer(s.Gateway)
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/v3/watch",
			strings.NewReader(`{"create_request": {"key": "YQ=="}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, "created") {
			t.Errorf("%s, %v", line, err)
		}
	}
}
