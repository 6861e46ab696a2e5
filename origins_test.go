package sqlstore_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sqlstore/sqlstore"
)

const listed, foreign = "https://ok.example", "http://evil.example"

// Where --cors names origins, and by default on the loopback interface, pages of other origins can neither open a
// websocket nor send the requests that a browser sends without asking first.
func TestForeignOrigins(t *testing.T) {
	closed, _ := start(t, sqlstore.Config{CORS: []string{listed}})
	open, _ := start(t, sqlstore.Config{CORS: []string{"*"}})
	unset, _ := start(t, sqlstore.Config{})
	wildcard, _ := start(t, sqlstore.Config{ListenClientURLs: []string{"http://0.0.0.0:0"}, InsecurePlaintext: true})
	secure, _ := start(t, sqlstore.Config{ListenClientURLs: []string{"https://127.0.0.1:0"}, TLS: certificates(t)})
	host := strings.TrimPrefix(closed.Endpoints()[0], "http://")
	anyServer := &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- any server will do
	dialer := websocket.Dialer{TLSClientConfig: anyServer}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: anyServer}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		server  *sqlstore.Server
		origin  string
		refused bool
	}{
		{closed, "", false}, // not a browser
		{closed, listed, false},
		{closed, "http://" + host, false}, // the server's own page
		{closed, foreign, true},
		{closed, "null", true}, // a sandboxed page or a file
		{closed, listed + ".evil.example", true},
		{closed, "http://LISTED", true},
		{open, foreign, false},
		{open, "null", false},
		{unset, "", false},
		{unset, unset.Endpoints()[0], false},
		{unset, foreign, true},
		{unset, "null", true},
		{unset, "http://127.0.0.1:1", true}, // another server of this machine
		{wildcard, foreign, true},           // over the loopback interface
		{wildcard, "", false},
		{secure, foreign, false},
	} {
		url := c.server.Endpoints()[0]
		header := http.Header{}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		socket, resp, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url,
			"http")+"/v3/watch", header)
		if (err != nil) != c.refused || c.refused && resp.StatusCode != http.StatusForbidden {
			t.Errorf("a websocket from %q: %v, want it refused: %v", c.origin, err, c.refused)
		}
		if err == nil {
			_ = socket.Close()
		}
		for method, read := range map[string]bool{http.MethodPost: false, http.MethodGet: true} {
			path := "/v3/kv/put"
			if read {
				path = "/version"
			}
			req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(`{"key":"YQ=="}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = header.Clone()
			req.Header.Set("Content-Type", "text/plain")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if told := resp.Header.Get("Access-Control-Allow-Origin"); c.refused && told != "" {
				t.Errorf("%s from %q: allowed origin %q", method, c.origin, told)
			}
			want := http.StatusOK
			if c.refused && !read {
				want = http.StatusForbidden
			}
			if resp.StatusCode != want {
				t.Errorf("%s from %q: %d, want %d", method, c.origin, resp.StatusCode, want)
			}
		}
	}
	if rev := closed.Store().Revision(); rev != 4 {
		t.Errorf("revision %d after three puts that were allowed", rev)
	}
}
