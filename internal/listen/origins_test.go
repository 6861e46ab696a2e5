package listen

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page of another origin cannot open a websocket, whichever of the Upgrade headers asks for it.
func TestUpgradesOfForeignOrigins(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		upgrade []string
		code    int
	}{
		{nil, http.StatusOK},
		{[]string{""}, http.StatusOK},
		{[]string{"websocket"}, http.StatusForbidden},
		{[]string{"", "websocket"}, http.StatusForbidden},
		{[]string{"websocket", ""}, http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v3/watch", http.NoBody)
		r.Header = http.Header{"Origin": {"http://evil.example"}, "Upgrade": c.upgrade}
		w := httptest.NewRecorder()
		(&Origins{Allowed: []string{"http://ok.example"}, Next: served}).ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("Upgrade %q: %d, want %d", c.upgrade, w.Code, c.code)
		}
	}
}
