package upgrade

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
)

const root = "../.."

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
	if err := o.fetch(); err != nil {
		return err
	}
	source, err := os.MkdirTemp(programs, "source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	archive := filepath.Join(source, "archive.tar")
	for _, step := range []struct {
		dir  string
		args []string
	}{
		{root, []string{"git", "-c", "safe.directory=*", "archive", "--output", archive, o.commit}},
		{source, []string{"tar", "-xf", archive}},
		// -trimpath keeps the temporary directory out of the packages, so that Go's cache has them next time.
		{source, []string{"go", "build", "-trimpath", "-o", o.program, "./cmd/sqlstore"}},
	} {
		if out, err := run(step.dir, step.args...); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// fetch fetches the commit if this is a shallow clone without it.
func (o *old) fetch() error {
	if _, err := git("cat-file", "-e", o.commit+"^{commit}"); err == nil {
		return nil
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return fmt.Errorf("the test needs the repository's history, with commit %s: %w\n%s", o.commit, err, shallow)
	}
	if strings.TrimSpace(shallow) != "true" {
		return fmt.Errorf("the repository's history lacks commit %s", o.commit)
	}
	if out, err := git("fetch", "--quiet", "--depth=1", "origin", o.commit); err != nil {
		return fmt.Errorf("this shallow clone lacks commit %s and cannot fetch it; run `git fetch --unshallow`: %w\n%s",
			o.commit, err, out)
	}
	return nil
}

func git(args ...string) (string, error) {
	// Git refuses a checkout that belongs to another user.
	return run(root, append([]string{"git", "-c", "safe.directory=*"}, args...)...)
}

// commandTimeout limits a command: generous, because a build may have to download and compile everything.
const commandTimeout = 15 * time.Minute

// run runs a command and returns what it prints.
func run(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(args[:min(2, len(args))], " "), err)
	}
	return string(out), err
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
