package sqlstore_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// Profiles are served where clients are, not on the metrics URLs, which ask for no certificate. They do not show the
// command line: it may have a password.
func TestProfiles(t *testing.T) {
	args := os.Args
	os.Args = append([]string{"the-program"}, "--datastore", "postgres://u:secret@h/d")
	t.Cleanup(func() { os.Args = args })
	var log logged
	s, _ := start(t, sqlstore.Config{
		Profiling: true, ListenMetricsURLs: []string{"http://127.0.0.1:0"},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	_, metrics, _ := strings.Cut(log.String(), `msg="serving metrics" address=`)
	metrics, _, _ = strings.Cut(metrics, "\n")
	for url, want := range map[string]int{s.Endpoints()[0]: http.StatusOK, "http://" + metrics: http.StatusNotFound} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
			resp, err := fetch(t, http.DefaultClient, http.MethodGet, url+path, "")
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			code, body := resp.StatusCode, string(content)
			if code != want || strings.Contains(body, "secret") {
				t.Errorf("%s%s: %d, want %d: %.80q", url, path, code, want, body)
			}
			if code == http.StatusOK && path == "/debug/pprof/cmdline" && body != "the-program" {
				t.Errorf("the command line is %q", body)
			}
		}
	}
}
