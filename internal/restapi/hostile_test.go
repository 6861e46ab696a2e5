package restapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for _, c := range []struct {
		method, path string
		code         int
		reason       string
	}{
		{"GET", "/", 404, "NotFound"},
		{"GET", "/v1/objects", 404, "NotFound"},
		{"GET", "/v1%2Fobjects/k", 404, "NotFound"},
		{"GET", "//v1/objects/k", 404, "NotFound"},
		{"GET", "/v2/objects/k", 404, "NotFound"},
		{"GET", "/metrics", 404, "NotFound"},
		{"GET", "/openapi.json/", 404, "NotFound"},
		{"GET", "/v1/objects/../../etc/passwd", 400, "BadRequest"},
		{"GET", "/v1/objects/a/./b", 400, "BadRequest"},
		{"PUT", "/v1/objects/a/%2e%2e/b", 400, "BadRequest"},
		{"DELETE", "/v1/objects/a%2F..", 400, "BadRequest"},
		{"GET", "/v1/objects/../", 400, "BadRequest"},
		{"POST", "/v1/objects/k", 405, "MethodNotAllowed"},
		{"PATCH", "/v1/objects/k", 405, "MethodNotAllowed"},
		{"PUT", "/v1/objects/a/", 405, "MethodNotAllowed"},
		{"PUT", "/v1/objects/a%2F", 405, "MethodNotAllowed"},
		{"DELETE", "/v1/objects/", 405, "MethodNotAllowed"},
		{"PUT", "/openapi.json", 405, "MethodNotAllowed"},
		{"FROB", "/v1/objects/k", 405, "MethodNotAllowed"},
		{"GET", "/v1/objects/k?%zz", 400, "BadRequest"},
		{"GET", "/v1/objects/?limit=-1", 400, "BadRequest"},
		{"GET", "/v1/objects/?limit=x", 400, "BadRequest"},
		{"GET", "/v1/objects/?limit=9223372036854775808", 400, "BadRequest"},
		{"GET", "/v1/objects/?limit=1&limit=2", 400, "BadRequest"},
		{"GET", "/v1/objects/?watch=maybe", 400, "BadRequest"},
		{"GET", "/v1/objects/?watch=true&timeoutSeconds=-1", 400, "BadRequest"},
		{"GET", "/v1/objects/?watch=true&allowWatchBookmarks=2", 400, "BadRequest"},
		{"GET", "/v1/objects/?resourceVersion=abc", 400, "BadRequest"},
		{"GET", "/v1/objects/?sendInitialEvents=true", 400, "BadRequest"},
		{"GET", "/v1/objects/?labelSelector=app%3Dpump", 400, "BadRequest"},
		{"GET", "/v1/objects/?watch=true&fieldSelector=metadata.name%3Dk", 400, "BadRequest"},
		{"PUT", "/v1/objects/k?dryRun=All", 400, "BadRequest"},
		{"DELETE", "/v1/objects/k?dryRun=All", 400, "BadRequest"},
	} {
		body := `{"value":1}`
		if c.method == "GET" { // otherwise it would refuse the body
			body = ""
		}
		r := s.do(c.method, c.path, body).want(c.code, c.reason)
		if allow := r.header.Get("Allow"); (allow != "") != (c.code == 405) {
			t.Errorf("%s %s: Allow %q", c.method, c.path, allow)
		}
	}
	if allow := s.do("POST", "/v1/objects/k", "").header.Get("Allow"); allow != "DELETE, GET, HEAD, PUT" {
		t.Errorf("Allow %q", allow)
	}
	if allow := s.do("POST", "/v1/objects/", "").header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow %q", allow)
	}
	if s.store.Revision() != 1 {
		t.Errorf("something was written")
	}
}

func TestKeysAreWhatFollows(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for path, key := range map[string]string{
		"k":                           "k",
		"/registry/pods/default/a":    "/registry/pods/default/a",
		"%2Fregistry%2Fpods":          "/registry/pods",
		"a//b":                        "a//b",
		"//a":                         "//a",
		"a%20b+c":                     "a b+c",
		"%00%ff":                      "\x00\xff",
		"%E2%82%AC/\u20ac":            "\u20ac/\u20ac",
		"...":                         "...",
		"a/.b/..c":                    "a/.b/..c",
		"a%3Fb%23c%25":                "a?b#c%",
		"a;b=c,d":                     "a;b=c,d",
		"a:b@c":                       "a:b@c",
		"%22%3C&%3E%5C":               `"<&>\`,
		"control%0A%01":               "control\n\x01",
		strings.Repeat("%6B", 10_000): strings.Repeat("k", 10_000),
	} {
		created := s.do("PUT", "/v1/objects/"+path, `{"value":"x"}`).want(201, "").item()
		if s.stored(key) == nil {
			t.Errorf("%.100s: nothing is stored at %.100q", path, key)
		}
		if strings.ToValidUTF8(key, "\uFFFD") != created.Metadata.Key {
			t.Errorf("%.100s: answered the key %.100q", path, created.Metadata.Key)
		}
	}
}

// raw sends bytes unchanged and returns the answer until the server closes the connection.
func raw(t *testing.T, s *served, sent string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, sent) }() // a server that has read enough stops reading
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return resp.Status
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for name, c := range map[string]struct{ sent, want string }{
		"bad percent-encoding": {"GET /v1/objects/%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request"},
		"a path cut off":       {"GET /v1/objects/% HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request"},
		"header of 10 MB": {"GET /v1/objects/k HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x",
			10<<20) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		"a path of 10 MB": {
			"GET /v1/objects/" + strings.Repeat("x", 10<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"431 Request Header Fields Too Large",
		},
		"an asterisk": {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found"},
		"a body announced as too large": {
			"PUT /v1/objects/k HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000000000\r\n\r\n",
			"413 Request Entity Too Large",
		},
		"a body without end": {
			"PUT /v1/objects/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+
				strings.Repeat("x", 1<<16)+"\r\n", 64), "413 Request Entity Too Large",
		},
		"a body of bad chunks": {
			"PUT /v1/objects/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
			"400 Bad Request",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := raw(t, s, c.sent); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestBodyThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{Timeout: 100 * time.Millisecond})
	if got := raw(t, s,
		"PUT /v1/objects/k HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"); got != "408 Request Timeout" {
		t.Errorf("%s, want 408", got)
	}
}

// The server does not wait for a body that it does not need: that of a read or of a refused request.
func TestBodyThatIsNotWanted(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	const body = " HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"
	for request, want := range map[string]string{
		"GET /v1/objects/p/?watch=true": "400 Bad Request",
		"GET /v1/objects/p/":            "400 Bad Request",
		"GET /v1/objects/k":             "400 Bad Request",
		"GET /nothing":                  "404 Not Found",
		"POST /v1/objects/k":            "405 Method Not Allowed",
		"DELETE /v1/objects/k":          "413 Request Entity Too Large",
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			if got := raw(t, s, request+body); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// A request that ends within its body gets an error, though the client may not be there to read it, and nothing is
// written.
func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PUT /v1/objects/k HTTP/1.1\r\nHost: x\r\nContent-Type: "+
		"application/octet-stream\r\nContent-Length: 10\r\n\r\n12345"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%s", resp.Status)
	}
	if s.stored("k") != nil {
		t.Error("half a value was stored")
	}
}
