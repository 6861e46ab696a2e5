package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

// A file system in memory is not a place for a database, and neither is a full or a read-only one.
func TestExamineUnfitFileSystems(t *testing.T) {
	smalldisk.Run(t, "1m", func(t *testing.T, dir string) {
		check := func(subject string, s backend.Severity, detail, advice string) {
			t.Helper()
			f := finding(t, Examine(t.Context(), filepath.Join(dir, "sqlstore.db")), subject)
			if f.Severity != s || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Advice, advice) {
				t.Errorf("%+v, want %q and %q", f, detail, advice)
			}
		}
		check("file system", backend.Warning, "on tmpfs", "")
		err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 2<<20), 0o600)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		check("sync latency", backend.Failure, "no space", "free space")
		smalldisk.MakeReadOnly(t, dir)
		check("sync latency", backend.Failure, "read-only", "for writing")
	})
}
