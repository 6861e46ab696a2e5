// Package pgbouncer puts a PgBouncer in transaction mode in front of a Postgres server, for tests. It uses the
// machine's program, otherwise Debian's in a container (package images). Its limits are those of Debian's version 1.18,
// the strictest in use: no prepared statements of the protocol, no session state, and only the startup parameters that
// it knows.
package pgbouncer

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// startTimeout limits the start, not counting the time to get the image.
const startTimeout = 30 * time.Second

// Parameter makes pgx work without prepared statements, as part of a DSN.
const (
	Parameter      = "default_query_exec_mode"
	ParameterValue = "exec"
)

// pooler is a running PgBouncer.
type pooler interface {
	remove() error
	logs() string
}

// Before starts a PgBouncer in front of the server of dsn, a URL with user and password. It returns the DSN of the same
// database through it, for pgx. It ends with the test.
func Before(tb testing.TB, dsn string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal("pgbouncer: the DSN must be a URL, postgres://user:password@host:port/database")
	}
	addr, err := launch.FreeAddress()
	if err != nil {
		tb.Fatalf("pgbouncer: %v", err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatalf("pgbouncer: %v", err)
	}
	program, err := find()
	var p pooler
	var host string
	if err == nil {
		host = "127.0.0.1"
		p, err = startLocal(tb, program, files(u, host, port))
	} else {
		p, host, err = startContainer(u, port)
	}
	if err != nil {
		tb.Fatalf("pgbouncer: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of PgBouncer:\n%s", p.logs())
		}
		if err := p.remove(); err != nil {
			tb.Errorf("pgbouncer: %v", err)
		}
	})

	u.Host = net.JoinHostPort(host, port)
	query := u.Query()
	query.Set(Parameter, ParameterValue)
	u.RawQuery = query.Encode()
	if err := ready(u.String()); err != nil {
		tb.Fatalf("pgbouncer: %v\n%s", err, p.logs())
	}
	return u.String()
}

// find returns the machine's program, which Debian installs outside users' PATH.
func find() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/pgbouncer")
}

// configName and usersName are the files that PgBouncer reads.
const (
	configName = "pgbouncer.ini"
	usersName  = "users"
)

// files returns the contents of PgBouncer's files by name. The users' file is relative to the working directory.
func files(server *url.URL, host, port string) map[string]string {
	password, _ := server.User.Password()
	serverPort := server.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = md5
auth_file = %s
pool_mode = transaction
default_pool_size = 20
max_client_conn = 1000
server_login_retry = 1
`, server.Hostname(), serverPort, host, port, usersName)
	return map[string]string{
		configName: config,
		usersName:  fmt.Sprintf("%q %q\n", server.User.Username(), password),
	}
}

func write(dir string, files map[string]string) error {
	for name, content := range files {
		// for another user to read
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until a query succeeds.
func ready(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT 1")
			_ = conn.Close(ctx)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no query succeeds: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
