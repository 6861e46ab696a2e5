package telemetry_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/store"
)

func request(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w.Code, w.Body.String()
}

func TestHealthy(t *testing.T) {
	m, s := newServer(t, false)
	h := m.Handler(s, "3.7.3", newAlarmed(s))
	for path, want := range map[string]string{
		"/livez":                          "ok\n",
		"/readyz":                         "ok\n",
		"/readyz/linearizable_read":       "ok\n",
		"/livez?verbose":                  "[+]serializable_read ok\n[+]writes ok\nok\n",
		"/readyz/writes?verbose":          "[+]writes ok\nok\n",
		"/readyz/non_learner?verbose":     "[+]non_learner ok\nok\n",
		"/livez?verbose&exclude=writes":   "[+]serializable_read ok\nok\n",
		"/readyz?exclude=no_such_check":   "ok\n",
		"/health":                         `{"health":"true","reason":""}`,
		"/health?serializable=true":       `{"health":"true","reason":""}`,
		"/readyz/data_corruption?verbose": "[+]data_corruption ok\nok\n",
	} {
		if code, body := request(t, h, http.MethodGet, path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	code, body := request(t, h, http.MethodGet, "/version")
	var version map[string]string
	if err := json.Unmarshal([]byte(body), &version); err != nil || code != http.StatusOK {
		t.Fatal(code, body, err)
	}
	if version["etcdserver"] != "3.7.3" || version["etcdcluster"] != "3.7.0" || version["storage"] != "3.7.0" {
		t.Errorf("version %v", version)
	}
	for _, method := range []string{http.MethodPost, http.MethodHead} {
		if code, _ := request(t, h, method, "/health"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s /health: %d", method, code)
		}
	}
	code, body = request(t, h, http.MethodGet, "/metrics")
	lines := strings.Split(body, "\n")
	for _, want := range []string{
		"etcd_server_health_success 2",
		`etcd_server_healthcheck{name="writes",type="readyz"} 1`,
		`etcd_server_version{server_version="3.7.3"} 1`,
		`grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 0`,
	} {
		if code != http.StatusOK || !slices.Contains(lines, want) {
			t.Errorf("/metrics: %d, without %s", code, want)
		}
	}
}

func TestAlarms(t *testing.T) {
	m, s := newServer(t, false)
	h := m.Handler(s, "3.7.3", newAlarmed(s))
	want := func(path string, code int, part string) {
		t.Helper()
		if got, body := request(t, h, http.MethodGet, path); got != code || !strings.Contains(body, part) {
			t.Errorf("%s: %d %q, want %d with %q", path, got, body, code, part)
		}
	}
	if err := s.RaiseAlarm(t.Context(), store.Alarm{Kind: store.AlarmNoSpace}); err != nil {
		t.Fatal(err)
	}
	want("/health", http.StatusServiceUnavailable, `"reason":"ALARM NOSPACE"`)
	want("/health?exclude=NOSPACE", http.StatusOK, `"true"`)
	want("/readyz", http.StatusServiceUnavailable, "[-]Ready False NoSpace") // etcd is ready, but read-only
	want("/readyz/data_corruption", http.StatusOK, "ok")
	if err := s.RaiseAlarm(t.Context(), store.Alarm{Kind: store.AlarmCorrupt}); err != nil {
		t.Fatal(err)
	}
	want("/health?exclude=NOSPACE", http.StatusServiceUnavailable, "ALARM CORRUPT")
	want("/readyz", http.StatusServiceUnavailable, "[-]data_corruption failed: alarm activated: CORRUPT")
	want("/readyz?exclude=data_corruption", http.StatusOK, "ok")
	want("/livez", http.StatusOK, "ok")
	if got := value(t, m, "etcd_server_health_failures"); got != 2 {
		t.Errorf("etcd_server_health_failures is %v, want 2", got)
	}
}
