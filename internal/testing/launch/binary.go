package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sqlstore/sqlstore"

var build struct {
	once sync.Once
	path string
	err  error
}

// Binary returns the path of the sqlstore binary under test: $SQLSTORE_BIN if set, otherwise ./cmd/sqlstore of the
// module that the running test uses, built once per test process. GOFLAGS applies, so GOFLAGS=-race gives a server with
// the race detector.
func Binary(tb testing.TB) string {
	tb.Helper()
	build.once.Do(func() { build.path, build.err = buildBinary() })
	if build.err != nil {
		tb.Fatalf("launch: %v", build.err)
	}
	return build.path
}

func buildBinary() (string, error) {
	if path := os.Getenv("SQLSTORE_BIN"); path != "" {
		return filepath.Abs(path)
	}
	// From the go command, because a nested module's test runs in another module than the binary's.
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, describe(err))
	}
	root := strings.TrimSpace(string(out))
	dir, err := binaryDir(root)
	if err != nil {
		return "", err
	}

	// Test processes of several packages build at the same time: each builds its own file and renames it into place,
	// which never disturbs a server that runs the file it replaces.
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	path, built := filepath.Join(dir, "sqlstore"), filepath.Join(tmp, "sqlstore")
	if last, err := os.ReadFile(path); err == nil { // go build does not link again what is up to date
		if err := os.WriteFile(built, last, 0o700); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("go", "build", "-o", built, "./cmd/sqlstore")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sqlstore: %w\n%s", err, out)
	}
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	return path, nil
}

// binaryDir returns where the binary of the module at root is kept: one place per checkout and GOFLAGS, so that test
// runs do not pile up binaries.
func binaryDir(root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256([]byte(root + "\x00" + os.Getenv("GOFLAGS")))
	dir := filepath.Join(cache, "sqlstore-test", hex.EncodeToString(sum[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}

// describe adds a command's standard error to the error of its Output.
func describe(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
