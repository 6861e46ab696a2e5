package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/test/support/images"
)

const (
	module       = "github.com/sqlstore/sqlstore"
	imageTag     = images.Prefix + "sqlstore:cluster"
	imageTimeout = 10 * time.Minute
)

// image returns the image of the sqlstore under test: the one that SQLSTORE_TEST_IMAGE names, or else the project's
// own, built from the module under test once per test process.
var image = sync.OnceValues(func() (string, error) {
	if ref := os.Getenv("SQLSTORE_TEST_IMAGE"); ref != "" {
		return ref, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), imageTimeout)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(strings.TrimSpace(string(root)), "scripts", "image.sh"), imageTag)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image of sqlstore: %w\n%s", err, out)
	}
	return imageTag, nil
})
