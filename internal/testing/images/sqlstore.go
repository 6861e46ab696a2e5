package images

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

const (
	module          = "github.com/sqlstore/sqlstore"
	sqlstoreTag     = Prefix + "sqlstore:test"
	sqlstoreTimeout = 10 * time.Minute
)

// Sqlstore returns the reference of the image of the sqlstore under test: the one that SQLSTORE_TEST_IMAGE names, or
// else the project's own, built from the module under test once per test process. A failure fails the test.
func Sqlstore(tb testing.TB) string {
	tb.Helper()
	ref, err := sqlstore()
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

var sqlstore = sync.OnceValues(func() (string, error) {
	if ref := env.Image.Text(); ref != "" {
		return ref, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqlstoreTimeout)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(strings.TrimSpace(string(root)), "scripts", "image.sh"), sqlstoreTag)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image of sqlstore: %w\n%s", err, out)
	}
	return sqlstoreTag, nil
})
