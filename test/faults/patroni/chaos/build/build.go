// Package build builds sqlstore for the chaos run, with a wall clock that the test can step. For tests only.
//
// A static Go program calls the kernel itself, so no preloaded library can change its clock, and Linux time namespaces
// have no wall clock. Instead, the build replaces a file of Go's package time: time.Now adds the seconds that a file
// contains. Timers, deadlines and time differences use the monotonic clock, as after a real step.
package build

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/support/overlay"
)

const timeout = 20 * time.Minute

//go:embed testdata/step.go
var step string

// now is the beginning of time.Now.
const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// Program returns the executable.
func Program(tb testing.TB, root string) []byte {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	path := filepath.Join(tb.TempDir(), "sqlstore")
	changes := []overlay.Change{
		overlay.Replace("time/time.go", now, now+"\tsec += step.Load()\n"),
		overlay.Add("time/step.go", step),
	}
	// A static program, as scripts/image.sh builds it.
	err := overlay.Go(ctx, root, changes, []string{"CGO_ENABLED=1"}, "build", "-trimpath", "-buildvcs=false",
		"-tags", "sqlite_omit_load_extension,netgo,osusergo",
		"-ldflags", `-s -w -linkmode external -extldflags "-static"`, "-o", path, "./cmd/sqlstore")
	if err != nil {
		tb.Fatalf("build sqlstore: %v", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return program
}
