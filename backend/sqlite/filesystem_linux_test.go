package sqlite

import (
	"os"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A file system in memory is not a place for a database.
func TestExamineMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "sqlstore-") //nolint:usetesting // another file system than t.TempDir's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := examineFileSystem(dir)
	if f.Severity != backend.Warning || !strings.Contains(f.Detail, "on tmpfs") || f.Advice == "" {
		t.Errorf("%+v", f)
	}
}
