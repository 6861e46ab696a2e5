package sqlite

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A process loses its locks on a file when it closes any descriptor of it. Then a shell that is opened and closed takes
// itself for the last one, and removes the log to which the server commits.
func TestInspectionHoldsLocks(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	b := openTest(t, Config{Path: path})
	if err := write(b, "a", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		v, err := OpenView(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var i backend.Inspection
		if err := v.Inspect(t.Context(), &i); err != nil || i.Found != 0 {
			t.Errorf("inspection: %v, %v", i.Problems, err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if out, err := exec.Command("sqlite3", path, "SELECT revision FROM clock").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := os.Stat(path + "-wal"); err != nil {
			t.Fatalf("after an inspection of %s, another program has removed the log in use: %v", name, err)
		}
	}
}
