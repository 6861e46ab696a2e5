package restapi_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// logged serves one request to its end and returns what was logged meanwhile.
func logged(t *testing.T, threshold time.Duration, method, path, body string) string {
	t.Helper()
	var log bytes.Buffer
	s := serve(t, restapi.Options{
		WarningDuration: threshold, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer := httptest.NewRecorder()
	s.api.ServeHTTP(answer, r)
	if answer.Code >= http.StatusBadRequest {
		t.Fatalf("%s %s answers %d: %s", method, path, answer.Code, answer.Body)
	}
	return log.String()
}

func TestSlowRequestsAreLogged(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		want               []string
	}{
		{http.MethodPut, "/v1/objects/the-key", `{"value":"secret"}`, []string{
			"level=WARN", `msg="slow request"`, "path=/v1/objects/the-key", "client=192.0.2.1:", "took=",
			"threshold=1ns", "code=201", "not-logged-before=0",
		}},
		{http.MethodGet, "/v1/objects/?limit=7", "", []string{"verb=list", "path=/v1/objects/ ", "code=200"}},
		{http.MethodGet, "/v1/objects/?watch=true&timeoutSeconds=1", "", []string{"verb=watch", "code=200"}},
	} {
		got := logged(t, time.Nanosecond, c.method, c.path, c.body)
		for _, want := range append(c.want, "method="+c.method) {
			if !strings.Contains(got, want) {
				t.Errorf("%s %s: no %s in %q", c.method, c.path, want, got)
			}
		}
		if strings.Count(got, "\n") != 1 || strings.Contains(got, "secret") {
			t.Errorf("%s %s: logged %q", c.method, c.path, got)
		}
	}
}

// The time that a watch lasts does not make it slow, and 0 logs nothing.
func TestWhatIsNotSlow(t *testing.T) {
	const path = "/v1/objects/?watch=true&timeoutSeconds=1"
	for _, threshold := range []time.Duration{900 * time.Millisecond, 0} {
		if got := logged(t, threshold, http.MethodGet, path, ""); got != "" {
			t.Errorf("at the threshold %s: %s", threshold, got)
		}
	}
}
