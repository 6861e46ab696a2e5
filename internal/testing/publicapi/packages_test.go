// Package publicapi tests what programs outside this repository can use: which packages they can import, that the
// exported names of package sqlstore need no internal ones, and a program that embeds the server.
package publicapi

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sqlstore/sqlstore"

// public are the packages that other programs can import. Each one is a promise: consider internal first.
var public = []string{
	module,
	module + "/backend",
	module + "/backend/backendtest",
	module + "/backend/kine",
	module + "/backend/postgres",
	module + "/backend/sqlite",
	module + "/cmd/entrypoint",
	module + "/cmd/sqlstore",
	module + "/compactor",
	module + "/etcdshim",
	module + "/paging",
	module + "/schema",
	module + "/sqlstoretest",
	module + "/sqlstoretest/container",
	module + "/status",
}

func TestPublicPackages(t *testing.T) {
	found := slices.DeleteFunc(list(t, module+"/..."), internal)
	slices.Sort(found)
	if !slices.Equal(found, public) {
		t.Errorf("public packages:\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(public, "\n"))
	}
}

// internal reports whether other modules cannot import a package of this one.
func internal(path string) bool {
	return inModule(path) && slices.Contains(strings.Split(path, "/"), "internal")
}

func inModule(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// list returns the output lines of go list.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
