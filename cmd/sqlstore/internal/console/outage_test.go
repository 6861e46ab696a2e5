package console_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
)

// over serves a console over a handler.
func over(t *testing.T, local http.HandlerFunc) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	server := httptest.NewServer(console.New(t.Context(), local, console.Options{Logger: log}))
	t.Cleanup(server.Close)
	return server.URL
}

func read(t *testing.T, url string) (code int, body string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// A stream that cannot go on for now ends without the event that tells the page to stop.
func TestStreamUnavailable(t *testing.T) {
	t.Parallel()
	for code, failed := range map[int]bool{
		http.StatusServiceUnavailable: false, http.StatusGatewayTimeout: false, http.StatusTooManyRequests: false,
		http.StatusGone: true, http.StatusForbidden: true,
	} {
		url := over(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		if _, body := read(t, url+"/watch/events?prefix=&after=1"); strings.Contains(body, "event: failed") != failed {
			t.Errorf("%d: %q", code, body)
		}
	}
}

// Browsers that do not finish what they send keep nobody from a page.
func TestHalfSent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, request := range []string{"POST /delete", "GET /browse"} {
		for range 8 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n", request)
			if err != nil {
				t.Fatal(err)
			}
		}
		s.get("/browse").want(200)
	}
}

// The overview answers while all other pages wait for the database.
func TestOverviewInOutage(t *testing.T) {
	t.Parallel()
	release, blocked := make(chan struct{}), make(chan struct{}, 64)
	url := over(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			blocked <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "{}")
	})
	var pages sync.WaitGroup
	for range 10 {
		pages.Go(func() { read(t, url+"/browse") })
	}
	for range 4 { // as many as are made at a time
		<-blocked
	}
	if code, body := read(t, url+"/"); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
	close(release)
	pages.Wait()
}
