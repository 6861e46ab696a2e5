package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A browser gets a page and others text about the same things, and only at / itself.
func TestPage(t *testing.T) {
	m, s := newServer(t, false)
	if err := s.RaiseAlarm(t.Context(), store.Alarm{Kind: store.AlarmNoSpace}); err != nil {
		t.Fatal(err)
	}
	h := m.Handler(s, "3.7.3", newAlarmed(s))
	for accept, c := range map[string]struct {
		kind  string
		parts []string
	}{
		"*/*": {"text/plain; charset=utf-8", []string{
			"sqlstore 1.2.3, member n: etcd API 3.7.3 on <sqlite>\n",
			"revision 7, compacted 0, 3.0 MiB (2.0 MiB in use, quota 2.0 GiB), 1,234 keys, 5.0 GiB free on the disk\n",
			"[+]Accepted True ", "[-]NoSpace True ", "/status ",
		}},
		"text/html,application/xhtml+xml;q=0.9": {"text/html; charset=utf-8", []string{
			"<h1>sqlstore 1.2.3, member n</h1>", "&lt;sqlite&gt;", "1,234 keys", `<tr><th scope="row">Accepted<td>True`,
			`<tr class="bad"><th scope="row">NoSpace<td>True`, `href="/readyz?verbose"`,
		}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); got != c.kind || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", accept, w.Code, got)
		}
		for _, part := range c.parts {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s: no %q in\n%s", accept, part, w.Body)
			}
		}
	}
	if code, _ := request(t, h, http.MethodGet, "/index.html"); code != http.StatusNotFound {
		t.Errorf("/index.html: %d", code)
	}
}
