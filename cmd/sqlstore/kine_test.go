package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// asKine runs the binary under the name kine in an empty directory, where it must become ready. After put and get it
// must stop when it is asked to.
func asKine(t *testing.T, endpoint, metrics string, args ...string) *log {
	t.Helper()
	l := newLog()
	cmd := exec.CommandContext(t.Context(), named(t, "kine"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), l, l
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "INFO", "ready")
	c := connect(t, endpoint)
	if _, err := c.Put(t.Context(), "/k0s-health-check", "value"); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(t.Context(), "/k0s-health-check"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("get: %v, %v", got, err)
	}
	if metrics != "" {
		page(t, "http://"+metrics+"/metrics", http.StatusOK)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("stop: %v", err)
	}
	return l
}

// named returns the binary under another name.
func named(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(launch.Binary(t), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// socketDir returns a directory whose name is short enough for a socket in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kine") //nolint:usetesting // t.TempDir's names are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// The command lines with which k0s, vcluster and Kamaji start kine, with other directories and ports.
func TestKineLaunchers(t *testing.T) {
	metrics, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(metrics, ":")
	dir := socketDir(t)
	asKine(t, "unix://"+dir+"/kine.sock:2379", metrics,
		"--compact-interval=0", "--endpoint=sqlite://"+dir+"/db/state.db?mode=rwc&_journal=WAL",
		"--listen-address=unix://"+dir+"/kine.sock:2379", "--metrics-bind-address=:"+port)
	asKine(t, "unix://"+dir+"/vcluster.sock", metrics,
		"--endpoint=sqlite://"+dir+"/state.db?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"--metrics-bind-address="+metrics, "--listen-address=unix://"+dir+"/vcluster.sock")
	dsn := pgserver.Database(t)
	l := asKine(t, "unix://"+dir+"/kamaji", "", "--endpoint="+dsn, "--listen-address=unix://"+dir+"/kamaji",
		"--metrics-bind-address=127.0.0.1:0")
	l.wait(t, "starting", "postgres://")
}

// As kine does, it creates the Postgres database that is missing.
func TestKineCreatesTheDatabase(t *testing.T) {
	u, err := url.Parse(pgserver.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	present := *u
	name := strings.ToLower(strings.Trim(u.Path, "/")) + "_of_kine"
	u.Path = "/" + name
	defer execute(t, present.String(), fmt.Sprintf("DROP DATABASE IF EXISTS %q", name))
	dir := socketDir(t)
	for _, created := range []bool{true, false} {
		l := asKine(t, "unix://"+dir+"/s", "", "--endpoint="+u.String(), "--listen-address=unix://"+dir+"/s",
			"--metrics-bind-address=0")
		if got := strings.Contains(l.text.String(), "created the database"); got != created {
			t.Errorf("created %v, want %v:\n%s", got, created, l.text.String())
		}
	}
}

// kine's own data is not served as an empty store.
func TestKineDataIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	err := kine.Export(t.Context(), kine.Prefix+"sqlite://"+file, &kine.Store{
		Revision: 5, Rows: func(_ context.Context, f func(backend.Row) error) error {
			return f(backend.Row{
				Key: []byte("/a"), Value: []byte("v"), ModRevision: 5, CreateRevision: 5, Version: 1,
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgserver.Database(t)
	execute(t, dsn, "CREATE TABLE kine (id bigint)")
	asKine := []string{"--listen-address=127.0.0.1:0", "--metrics-bind-address=0"}
	for _, c := range []struct {
		command, endpoint string
		listen            []string
		want              string
	}{
		{"kine", "--endpoint=sqlite://" + file, asKine, "import --from kine+sqlite://" + file},
		{"kine", "--endpoint=" + dsn, asKine, "import --from kine+postgres://"},
		{
			"serve", "--datastore=" + dsn,
			[]string{"--listen-client-urls=http://127.0.0.1:0"},
			"import --from kine+postgres://",
		},
		{"doctor", "--datastore=" + dsn, []string{"-o=json"}, "import --from kine+postgres://"},
		{"schema", "up", []string{"--datastore=" + dsn}, "import --from kine+postgres://"},
	} {
		args := append([]string{c.command, c.endpoint}, c.listen...)
		out, problems, code := run(t, launch.Binary(t), args, nil)
		problems += out
		if code != 1 || !strings.Contains(problems, c.want) {
			t.Errorf("%s: exit code %d, %s", c.command, code, problems)
		}
	}
	if out, err := sqlstore(t, "schema", "status", "--datastore", dsn); !strings.Contains(out, "version 0 of 1") {
		t.Errorf("a refused start has migrated kine's database: %s, %v", out, err)
	}
	execute(t, dsn, "CREATE SCHEMA beside")
	launch.Start(t, launch.Config{Args: []string{"--datastore", dsn + "&search_path=beside,public"}})
	execute(t, dsn, "ALTER TABLE kine RENAME TO kine_of_old")
	launch.Start(t, launch.Config{Args: []string{"--datastore", dsn}})
}
