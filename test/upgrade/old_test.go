package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/support/commit"
)

const (
	root = "../.."
	// buildTimeout is generous, because a build may have to download and compile everything.
	buildTimeout = 15 * time.Minute
)

// old is a version to upgrade from.
type old struct {
	name   string
	commit string
	// sqlite and postgres are its schema versions.
	sqlite, postgres int

	once    sync.Once
	program string
	err     error
}

var versions = []*old{
	{name: "0.1", commit: "0f6b26c326bf5d0f94b45eb20077c36557ddbd19", sqlite: 2, postgres: 2},
	{name: "before checksums", commit: "3e43db48f153766138bf8dc0d7ead7c1086c2aa2", sqlite: 2, postgres: 5},
}

// serve returns the command that serves. The program is built once for all tests.
func (o *old) serve(t *testing.T) []string {
	t.Helper()
	o.once.Do(func() {
		o.program = filepath.Join(programs, o.commit)
		o.err = o.build()
	})
	if o.err != nil {
		t.Fatalf("build version %q: %v", o.name, o.err)
	}
	return []string{o.program, "serve"}
}

func (o *old) build() error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	source, err := os.MkdirTemp(programs, "source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := commit.Export(ctx, root, o.commit, source); err != nil {
		return err
	}
	// -trimpath keeps the temporary directory out of the packages, so that Go's cache has them next time.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", o.program, "./cmd/sqlstore")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// programs is the directory of the old binaries.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "sqlstore-upgrade-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}
