package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/support/images"
)

const (
	module       = "github.com/sqlstore/sqlstore"
	imageTag     = images.Prefix + "sqlstore:patroni"
	imageTimeout = 10 * time.Minute
)

// Sqlstore returns the image of the sqlstore under test: the one that SQLSTORE_TEST_IMAGE names, else the project's
// own, built from the module under test once per test process.
func Sqlstore(tb testing.TB) string {
	tb.Helper()
	ref, err := sqlstore()
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

var sqlstore = sync.OnceValues(func() (string, error) {
	if ref := os.Getenv("SQLSTORE_TEST_IMAGE"); ref != "" {
		return ref, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), imageTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "image.sh"), imageTag)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image of sqlstore: %w\n%s", err, out)
	}
	return imageTag, nil
})

// Root returns the directory of the module under test.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
