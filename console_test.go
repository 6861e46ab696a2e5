package sqlstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// A console gets what the other listeners serve, within the process, also where the list/watch API is off.
func TestConsoleListener(t *testing.T) {
	off, _ := start(t, sqlstore.Config{})
	if urls := off.ConsoleEndpoints(); len(urls) != 0 {
		t.Errorf("served on %v without being asked", urls)
	}
	s, c := start(t, sqlstore.Config{
		ListenConsoleURLs: []string{"http://127.0.0.1:0"},
		Console:           func(_ context.Context, local http.Handler) http.Handler { return local },
	})
	if _, err := c.Put(t.Context(), "a/b", "1"); err != nil {
		t.Fatal(err)
	}
	console := s.ConsoleEndpoints()[0]
	for path, part := range map[string]string{
		"/status": `"conditions"`, "/metrics": "etcd_mvcc_put_total 1", "/v1/objects/a/b": `"value":1`,
		"/v1/tree/": `"prefix":"a/","keys":1`, "/openapi.json": `"openapi"`,
	} {
		answer := wantCode(t, http.DefaultClient, "GET", console+path, "", http.StatusOK)
		body, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(body), part) {
			t.Errorf("%s: %.200s, %v", path, body, err)
		}
	}
	wantCode(t, http.DefaultClient, "GET", console+"/v1/objects/%2e%2e", "", http.StatusBadRequest)
	answer := wantCode(t, http.DefaultClient, "GET", s.Endpoints()[0]+"/", "", http.StatusOK)
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), console) {
		t.Errorf("the page for clients does not lead to the console: %s, %v", body, err)
	}
}

// Whatever the whitelist for the JSON gateway is, no page of another name gets in, and the operator does.
func TestConsoleHosts(t *testing.T) {
	for _, whitelist := range [][]string{nil, {"*"}, {"db.example"}} {
		s, _ := start(t, sqlstore.Config{
			ListenConsoleURLs: []string{"http://127.0.0.1:0"}, HostWhitelist: whitelist,
			Console: func(_ context.Context, local http.Handler) http.Handler { return local },
		})
		for host, code := range map[string]int{"": 200, "evil.example": http.StatusMisdirectedRequest} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.ConsoleEndpoints()[0]+"/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = answer.Body.Close(); answer.StatusCode != code {
				t.Errorf("whitelist %q, host %q: %s", whitelist, host, answer.Status)
			}
		}
	}
}

// A tunnel may lead a browser to a unix socket.
func TestConsoleHostsOfSockets(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "console")
	start(t, sqlstore.Config{
		ListenConsoleURLs: []string{"unix://" + socket},
		Console:           func(_ context.Context, local http.Handler) http.Handler { return local },
	})
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	for host, code := range map[string]int{"localhost:2382": 200, "evil.example:2382": http.StatusMisdirectedRequest} {
		wantCode(t, client, "GET", "http://"+host+"/status", "", code)
	}
}

// Passwords and pages need TLS where other machines can reach them.
func TestConsoleWithoutTLS(t *testing.T) {
	pages := func(_ context.Context, local http.Handler) http.Handler { return local }
	for name, cfg := range map[string]sqlstore.Config{
		"all interfaces": {ListenConsoleURLs: []string{"http://0.0.0.0:0"}, Console: pages},
		"plaintext":      {ListenConsoleURLs: []string{"http://0.0.0.0:0"}, Console: pages, InsecurePlaintext: true},
		"no pages":       {ListenConsoleURLs: []string{"http://127.0.0.1:0"}},
		"no URL":         {ListenConsoleURLs: []string{"127.0.0.1:0"}, Console: pages},
	} {
		s, err := sqlstore.Start(t.Context(), cfg)
		if !errors.Is(err, sqlstore.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = s.Close()
		}
		if err := cfg.Check(); !errors.Is(err, sqlstore.ErrConfig) {
			t.Errorf("%s, checked: %v", name, err)
		}
	}
}
