// Package build builds sqlstore for the chaos run, with a wall clock that the test can step. For tests only.
//
// A static Go program calls the kernel itself, so no preloaded library can change its clock, and Linux time namespaces
// have no wall clock. Instead, the build replaces a file of Go's package time: time.Now adds the seconds that a file
// contains. Timers, deadlines and time differences use the monotonic clock, as after a real step.
package build

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const timeout = 20 * time.Minute

//go:embed testdata/step.go
var step []byte

// Program returns the executable.
func Program(tb testing.TB, root string) []byte {
	tb.Helper()
	dir := tb.TempDir()
	overlay, err := writeOverlay(dir)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	binary, err := compile(ctx, root, overlay, filepath.Join(dir, "sqlstore"))
	if err != nil {
		tb.Fatalf("build sqlstore: %v", err)
	}
	return binary
}

// writeOverlay writes replacements for files of the standard library, and returns the file that lists them.
func writeOverlay(dir string) (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go's standard library: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		return "", fmt.Errorf("%s/time.go: time.Now has changed; adapt package build to it", library)
	}
	stepped := strings.Replace(string(text), now, now+"\tsec += step.Load()\n", 1)
	replaced := map[string]string{}
	for name, content := range map[string][]byte{"time.go": []byte(stepped), "step.go": step} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
		replaced[filepath.Join(library, name)] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// compile compiles a static program, as scripts/image.sh does.
func compile(ctx context.Context, source, overlay, output string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay,
		"-tags", "sqlite_omit_load_extension,netgo,osusergo",
		"-ldflags", `-s -w -linkmode external -extldflags "-static"`, "-o", output, "./cmd/sqlstore")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(output)
}
