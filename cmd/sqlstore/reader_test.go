package main_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// A server that asks for a user is not taken for one that is down.
func TestReadWithoutUser(t *testing.T) {
	t.Parallel()
	s := launch.Start(t, launch.Config{Args: []string{"--bcrypt-cost=4"}})
	client := connect(t, s.Endpoint())
	_, err := client.UserAdd(t.Context(), "root", "secret")
	_, granted := client.UserGrantRole(t.Context(), "root", "root")
	_, enabled := client.AuthEnable(t.Context())
	if err := errors.Join(err, granted, enabled); err != nil {
		t.Fatal(err)
	}
	out, err := sqlstore(t, "ls", "--endpoint", s.ClientURL())
	if err == nil || !strings.Contains(out, "give --user and --password-file") ||
		strings.Contains(out, "does not answer") {
		t.Errorf("%v, %q", err, out)
	}
}

// An empty directory does not become a server, or the default one.
func TestEmptyDataDir(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"ls"}, {"get", "k"}, {"check"}, {"schema", "status"}, {"revision"}, {"export", "-"},
	} {
		out, err := sqlstore(t, append(args, "--data-dir", "")...)
		if err == nil || !strings.Contains(out, "must not be empty") {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), "ls")
	cmd.Env = append(cmd.Environ(), "SQLSTORE_DATA_DIR=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "must not be empty") {
		t.Errorf("an empty variable: %v, %s", err, out)
	}
}

// Commands for backups take their flags from variables, as all others do.
func TestBackupVariables(t *testing.T) {
	t.Parallel()
	s := launch.Start(t, launch.Config{})
	dir := filepath.Join(t.TempDir(), "backups")
	run := func(variables []string, want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), launch.Binary(t), args...)
		cmd.Env = append(cmd.Environ(), variables...)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q with %q: %v, %s; want %q", args, variables, err, out, want)
		}
	}
	run([]string{"SQLSTORE_FROM=" + s.ClientURL(), "SQLSTORE_TO=" + dir, "SQLSTORE_WORK_DIR=" + t.TempDir()},
		"up to revision 1\n", "backup")
	from := []string{"SQLSTORE_FROM=" + dir}
	run(from, "REVISIONS", "backup", "list")
	run(from, "0 problems", "backup", "verify")
	run(append(from, "SQLSTORE_KEEP=1h"), "", "backup", "prune")
}
