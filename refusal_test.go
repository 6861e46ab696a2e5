package sqlstore_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore"
)

// After the database file was removed, clients and probes learn why no write is accepted, and that a restart is not
// wanted yet.
func TestRemovedDatabaseFile(t *testing.T) {
	dir := t.TempDir()
	s, c := start(t, sqlstore.Config{DataDir: dir})
	if err := os.Remove(filepath.Join(dir, "sqlstore.db")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Put(t.Context(), "k", "v")
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; _, err = c.Put(t.Context(), "k", "v") {
	}
	const reason = "the database file that this server has open was replaced or removed"
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), reason) {
		t.Errorf("put: %v, %v", status.Code(err), err)
	}
	wantConditions(t, s, "Ready False WritesStopped", "DatabaseUnavailable True WritesStopped")
	if m := find(s.Status(t.Context()).Conditions, "Ready").Message; strings.Contains(m, "disk") ||
		!strings.Contains(m, reason) {
		t.Errorf("message %q", m)
	}
	url := s.Endpoints()[0]
	for _, path := range []string{"/readyz", "/readyz/writes", "/health"} {
		if err := probe(url+path, http.StatusServiceUnavailable, reason); err != nil {
			t.Error(err)
		}
	}
	body(t, url+"/livez")
	body(t, url+"/health?serializable=true")
}
