package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// The snapshot of a backup or import that fails does not stay, and the next run sees what was written since. A refused
// target costs no download.
func TestSnapshotOfFailure(t *testing.T) {
	t.Parallel()
	s := launch.Start(t, launch.Config{})
	source := connect(t, s.Endpoint())
	put := func(key string) {
		t.Helper()
		if _, err := source.Put(t.Context(), key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	run := func(fails bool, want string, args ...string) string {
		t.Helper()
		out, err := sqlstore(t, append(args, "--from", s.ClientURL(), "--work-dir", work)...)
		if (err != nil) != fails || !strings.Contains(out, want) {
			t.Errorf("%q: %v, %q; want %q", args, err, out, want)
		}
		if left, err := filepath.Glob(filepath.Join(work, "*")); err != nil || len(left) > 0 {
			t.Errorf("%q leaves %q, %v", args, left, err)
		}
		return out
	}
	put("a")
	run(true, "saving a snapshot", "backup", "--to", "/proc") // where nothing can be made
	put("b")
	run(false, "2 rows up to revision 3\n", "backup", "--to", t.TempDir())

	full := filepath.Join(t.TempDir(), "full")
	run(false, "revision 3,", "import", "--data-dir", full)
	for _, flags := range [][]string{nil, {"--follow"}} {
		args := append([]string{"import", "--data-dir", full}, flags...)
		if out := run(true, "holds data", args...); strings.Contains(out, "saving a snapshot") {
			t.Errorf("%q: a snapshot is saved for a target that is refused: %q", args, out)
		}
	}
	put("c")
	run(false, "revision 4,", "import", "--data-dir", filepath.Join(t.TempDir(), "empty"))
}
