package listen_test

import (
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
