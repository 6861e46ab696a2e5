package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

func finding(t *testing.T, all []backend.Finding, subject string) backend.Finding {
	t.Helper()
	for _, f := range all {
		if f.Subject == subject {
			return f
		}
	}
	t.Errorf("no finding about %s in %+v", subject, all)
	return backend.Finding{}
}

// An examination says what it found, beside a server that uses the directory, and leaves nothing there.
func TestExamine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "sqlstore.db")
	if f := finding(t, Examine(t.Context(), path), "data directory"); f.Severity != backend.Warning {
		t.Errorf("a missing directory: %+v", f)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the examination made the directory")
	}
	openTest(t, Config{Path: path})
	before := entries(t, filepath.Dir(path))
	all := Examine(t.Context(), path)
	if f := finding(t, all, "data directory"); f.Severity != backend.OK || !strings.Contains(f.Detail, "drwx------") {
		t.Errorf("%+v", f)
	}
	if f := finding(t, all, "sync latency"); !strings.Contains(f.Detail, "p50") {
		t.Errorf("%+v", f)
	}
	if f := finding(t, all, "file system"); !strings.Contains(f.Detail, "GiB free") {
		t.Errorf("%+v", f)
	}
	if after := entries(t, filepath.Dir(path)); after != before {
		t.Errorf("the directory has %s, before %s", after, before)
	}
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	f := finding(t, Examine(t.Context(), path), "data directory")
	if f.Severity != backend.Warning || !strings.Contains(f.Advice, "chmod go-w") {
		t.Errorf("a directory for all: %+v", f)
	}
	f = finding(t, Examine(t.Context(), filepath.Join(path, "sqlstore.db")), "data directory")
	if f.Severity != backend.Failure {
		t.Errorf("a file in place of the directory: %+v", f)
	}
}

func entries(t *testing.T, dir string) string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
