package listen_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// What cannot match a Host header is refused.
func TestCheckHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"*": true, " * ": true, "a.example": true, " a.example. ": true, "A.example:2379": true, "localhost": true,
		"127.0.0.1": true, "::1": true, "[::1]": true, "[::1]:2379": true,
		"*.example.com": false, "*:2379": false, "a*": false, "": false, " ": false, ":2379": false,
		"http://a.example": false, "a.example/": false, "10.0.0.0/8": false, "a b": false, "a@b": false,
	} {
		if err := listen.CheckHosts([]string{"ok.example", host}); (err == nil) != want {
			t.Errorf("%q: %v, want it accepted: %v", host, err, want)
		}
	}
}

// An origin that no browser sends is refused.
func TestCheckOrigins(t *testing.T) {
	for origin, want := range map[string]bool{
		"*": true, "https://a.example": true, "http://127.0.0.1:8080": true, "http://[::1]:80": true,
		"a.example": false, "https://a.example/": false, "https://*.example.com": false, "https://A.example": false,
		"ftp://a.example": false, "": false,
	} {
		if err := listen.CheckOrigins([]string{origin}); (err == nil) != want {
			t.Errorf("%q: %v, want it accepted: %v", origin, err, want)
		}
	}
}

// A page that is refused learns how it can be allowed. Not every origin can be listed.
func TestAdviceOnOrigins(t *testing.T) {
	for origin, want := range map[string]string{
		"https://a.example": ": add it to Config.CORS", "null": "serve the page over http or https",
		"chrome-extension://abc": "serve the page over http or https",
	} {
		r, w := httptest.NewRequest(http.MethodPost, "/v3/kv/put", nil), httptest.NewRecorder()
		r.Header.Set("Origin", origin)
		(&listen.Origins{Allowed: []string{"https://b.example"}}).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %q, want %q", origin, w.Code, w.Body, want)
		}
	}
}

// A listener on all interfaces is guarded only where a connection arrives over the loopback interface. Pages of all
// origins may use it under an address that other machines reach.
func TestAddressThatAConnectionArrivesAt(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	guard := listen.NewHosts(nil, nil, &listen.Origins{Next: served})
	for _, c := range []struct {
		address string
		host    string
		want    int
	}{
		{"192.0.2.1", "etcd.example", http.StatusOK},
		{"2001:db8::1", "etcd.example", http.StatusOK},
		{"127.0.0.1", "etcd.example", http.StatusMisdirectedRequest},
		{"127.0.0.1", "localhost", http.StatusForbidden},
		{"::1", "localhost", http.StatusForbidden},
		{"::ffff:127.0.0.1", "localhost", http.StatusForbidden},
	} {
		for _, upgrade := range []string{"", "websocket"} {
			at := &net.TCPAddr{IP: net.ParseIP(c.address), Port: 2379}
			ctx := context.WithValue(listen.WithLoopback(wildcard{}), http.LocalAddrContextKey, at)
			r, w := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v3/kv/put", nil), httptest.NewRecorder()
			r.Host = c.host
			r.Header.Set("Origin", "http://evil.example")
			r.Header.Set("Upgrade", upgrade)
			guard.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%q at %s, upgrade %q: %d, want %d", c.host, c.address, upgrade, w.Code, c.want)
			}
		}
	}
}

// wildcard is a listener on all interfaces.
type wildcard struct{ net.Listener }

func (wildcard) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6zero, Port: 2379} }
