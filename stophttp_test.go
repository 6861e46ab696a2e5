package sqlstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// startLarge starts a server with more data than the buffers of a connection hold.
func startLarge(t *testing.T, log io.Writer) *sqlstore.Server {
	t.Helper()
	s, c := start(t, sqlstore.Config{
		Logger: slog.New(slog.NewTextHandler(log, nil)), ListenObjectsURLs: []string{"http://127.0.0.1:0"},
		Profiling: true,
	})
	large := string(bytes.Repeat([]byte{0, 'x'}, 1<<19))
	for i := range 16 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("x/%d", i), large); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// closeInTime closes the server, which must not wait until the end of its grace period.
func closeInTime(t *testing.T, s *sqlstore.Server, log *logged) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), sqlstore.CutOff) {
		t.Errorf("it waited to the end of the grace period:\n%s", log.String())
	}
}

// Clients that stop sending a request or reading its answer do not delay Close, whichever API they use.
func TestCloseDoesNotWaitForSilentClients(t *testing.T) {
	const (
		host   = " HTTP/1.1\r\nHost: localhost\r\n"
		rest   = host + "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
		all    = `{"key":"AA==","range_end":"AA=="}`
		begun  = "HTTP/1.1 100 Continue\r\n"
		answer = "HTTP/1.1 200 OK\r\n"
	)
	for name, c := range map[string]struct {
		objects    bool
		sent, want string // the first line of the answer shows that the request is served
	}{
		"half a put":   {false, "POST /v3/kv/put" + rest, begun},
		"half a watch": {false, "POST /v3/watch" + rest, begun},
		"an unread range": {
			false, fmt.Sprintf("POST /v3/kv/range%sContent-Length: %d\r\n\r\n%s", host, len(all), all), answer,
		},
		"an unread snapshot": {false, "POST /v3/maintenance/snapshot" + host + "Content-Length: 2\r\n\r\n{}", answer},
		"half a PUT":         {true, "PUT /v1/objects/k" + rest, begun},
		"half a DELETE":      {true, "DELETE /v1/objects/k" + rest, begun},
		"an unread list":     {true, "GET /v1/objects/" + host + "\r\n", answer},
		"unread events": {
			true, "GET /v1/objects/?watch=true&sendInitialEvents=true&allowWatchBookmarks=true" +
				"&resourceVersionMatch=NotOlderThan" + host + "\r\n", answer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			s := startLarge(t, &log)
			endpoint := s.Endpoints()[0]
			if c.objects {
				endpoint = s.ObjectEndpoints()[0]
			}
			conn := half(t, endpoint, c.sent)
			if line, err := bufio.NewReaderSize(conn, len(answer)).ReadString('\n'); line != c.want {
				t.Fatalf("%q, %v", line, err)
			}
			closeInTime(t, s, &log)
		})
	}
}

// A stop ends a trace that is being made, and its client has a shorter one.
func TestCloseEndsTraces(t *testing.T) {
	var log logged
	s := startLarge(t, &log)
	type answer struct {
		text []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		resp, err := http.Get(s.Endpoints()[0] + "/debug/pprof/trace?seconds=300")
		if err != nil {
			got <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		got <- answer{text, err}
	}()
	for !trace.IsEnabled() {
		runtime.Gosched()
	}
	closeInTime(t, s, &log)
	if a := <-got; a.err != nil || !bytes.HasPrefix(a.text, []byte("go 1.")) {
		t.Errorf("%.20q, %v", a.text, a.err)
	}
}
