package etcdtests

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/programs"
)

const module = "go.etcd.io/etcd/tests/v3"

// program is the test binary of one of etcd's packages.
type program struct {
	pkg  string
	path string
	dir  string // to run in
}

func build(t *testing.T, pkg string) program {
	t.Helper()
	root := tree(t, pkg)
	p := program{pkg: pkg, path: filepath.Join(root, pkg+".test"), dir: filepath.Join(root, "tests", pkg)}
	goCommand(t, "test", "-c", "-tags", "e2e", "-o", p.path, module+"/"+pkg)
	return p
}

// list returns the names of the tests, without subtests.
func (p program) list(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, "-test.list=.")
	cmd.Dir = p.dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// tree makes a directory in which etcd's tests find what they expect in etcd's repository: bin with the programs,
// tests/fixtures, and a directory of the package to run in.
func tree(t *testing.T, pkg string) string {
	t.Helper()
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	for _, dir := range []string{bin, filepath.Join(root, "tests", pkg)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, "build", "-o", filepath.Join(bin, "etcd"), "./etcd")
	settings, err := json.Marshal(map[string]string{
		"Sqlstore": launch.Binary(t),
		"Etcd":     programs.Etcd.Path(t),
		"Postgres": pgserver.Start(t, pgserver.Options{Settings: []string{"max_connections=300"}}).DSN(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "etcd.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	source := goCommand(t, "list", "-m", "-f", "{{.Dir}}", module)
	for link, target := range map[string]string{
		"bin/etcdctl":    programs.Etcdctl.Path(t),
		"bin/etcdutl":    programs.Etcdutl.Path(t),
		"tests/fixtures": filepath.Join(source, "fixtures"),
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// goCommand runs the go command in this module, and returns what it prints.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}
