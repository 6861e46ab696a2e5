package pitr

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// cluster is a Postgres of the machine's binaries with a directory of its own, and pgBackRest for it.
type cluster struct {
	programs pgserver.Programs
	dir      string // belongs to the server's user
	data     string
	port     string
	env      []string
}

// newCluster creates a cluster with a role and a database of the name sqlstore, and starts it.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	programs, err := pgserver.FindPrograms()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sqlstore-pitr-") //nolint:usetesting // short, as it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Server(dir); err != nil {
		t.Fatal(err)
	}
	c := &cluster{programs: programs, dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(c.log())
			t.Logf("log of Postgres:\n%s", log)
		}
		guard.KillServer(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if _, c.port, err = net.SplitHostPort(address); err != nil {
		t.Fatal(err)
	}
	if c.data, err = programs.Create(dir); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"repository", "lock", "spool"} {
		c.hand(t, sub)
	}
	c.env = append(os.Environ(), "LC_ALL=C", "PGHOST="+dir, "PGPORT="+c.port, "PGUSER=postgres",
		"PGBACKREST_CONFIG="+c.config(), "PGBACKREST_PG1_PORT="+c.port, "PGBACKREST_PG1_SOCKET_PATH="+dir,
		"PGBACKREST_PG1_USER=postgres", "PGBACKREST_LOCK_PATH="+filepath.Join(dir, "lock"),
		"PGBACKREST_SPOOL_PATH="+filepath.Join(dir, "spool"), "PGBACKREST_LOG_LEVEL_FILE=off")
	settings := fmt.Sprintf("listen_addresses = 'localhost'\nport = %s\nunix_socket_directories = '%s'\n", c.port, dir)
	appendFile(t, filepath.Join(c.data, "postgresql.conf"), settings)
	c.run(t, "pg_ctl", "start", "-D", c.data, "-l", c.log())
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://postgres@localhost:%s/postgres", c.port))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE ROLE sqlstore LOGIN", "CREATE DATABASE sqlstore OWNER sqlstore TEMPLATE template0 ENCODING 'UTF8'",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) log() string    { return filepath.Join(c.dir, "log") }
func (c *cluster) config() string { return filepath.Join(c.dir, "pgbackrest.conf") }
func (c *cluster) dsn() string {
	return fmt.Sprintf("postgres://sqlstore@localhost:%s/sqlstore", c.port)
}

// hand makes a directory that belongs to the server's user.
func (c *cluster) hand(t *testing.T, sub string) {
	t.Helper()
	path := filepath.Join(c.dir, sub)
	err := os.Mkdir(path, 0o700)
	if u := c.programs.Credential; err == nil && u != nil {
		err = os.Chown(path, int(u.Uid), int(u.Gid))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if errClose := f.Close(); err != nil || errClose != nil {
		t.Fatal(err, errClose)
	}
}

// program returns the path of a program of Postgres or of the machine.
func (c *cluster) program(t *testing.T, name string) string {
	t.Helper()
	if path := c.programs.Path(name); isFile(path) {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: install it, 'make e2e-pitr' does", err)
	}
	return path
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// run runs a program as the server's user and returns what it prints.
func (c *cluster) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program(t, name), args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.programs.Credential}
	// A file, because a server that the program starts keeps a pipe open.
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	failed := cmd.Run()
	text, err := os.ReadFile(out.Name())
	if failed != nil || err != nil {
		t.Fatalf("%s %q: %v, %v\n%s", name, args, failed, err, text)
	}
	return strings.TrimSpace(string(text))
}

// archive configures pgBackRest and makes the server archive its log.
func (c *cluster) archive(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf("[global]\nrepo1-path=%s\nstart-fast=y\n[main]\npg1-path=%s\n",
		filepath.Join(c.dir, "repository"), c.data)
	if err := os.WriteFile(c.config(), []byte(text), 0o644); err != nil { // for the other user to read
		t.Fatal(err)
	}
	c.run(t, "psql", "-c", "ALTER SYSTEM SET archive_mode = on", "-c",
		"ALTER SYSTEM SET archive_command = 'pgbackrest --stanza=main archive-push %p'")
	c.run(t, "pg_ctl", "restart", "-D", c.data, "-l", c.log())
	c.run(t, "pgbackrest", "--stanza=main", "stanza-create")
}
