package server

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// MariaDB is a server of the machine's binaries that ends with the test.
type MariaDB struct {
	// Files has a certificate authority, root.pem, and a certificate of a client, client.pem and client.key.
	Files   string
	address string
}

// StartMariaDB runs a server, without passwords, on the loopback interface.
func StartMariaDB(tb testing.TB) *MariaDB {
	tb.Helper()
	program := find(tb, "mariadbd")
	dir := filepath.Join(tb.TempDir(), "data")
	user := "--user=" + username()
	install := exec.Command(find(tb, "mariadb-install-db"), "--no-defaults", "--datadir="+dir, user,
		"--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := install.CombinedOutput(); err != nil {
		tb.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	host, port, _ := strings.Cut(address, ":")
	m := &MariaDB{Files: tb.TempDir(), address: address}
	certificates(tb, m.Files)
	p := run(tb, nil, program, "--no-defaults", "--datadir="+dir, user, "--bind-address="+host, "--port="+port,
		"--socket="+filepath.Join(dir, "socket"), "--pid-file="+filepath.Join(dir, "pid"),
		"--ssl-ca="+filepath.Join(m.Files, "root.pem"), "--ssl-cert="+filepath.Join(m.Files, "server.pem"),
		"--ssl-key="+filepath.Join(m.Files, "server.key"),
		"--innodb-flush-log-at-trx-commit=0") // its crashes are not tested
	p.await(tb, time.Minute, func() error { return m.Exec("SELECT 1") })
	return m
}

// Database makes an empty database and returns its place in the form user@host:port/name.
func (m *MariaDB) Database(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	if err := m.Exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	return "root@" + m.address + "/" + name
}

// Exec runs a statement.
func (m *MariaDB) Exec(statement string) error {
	db, err := sql.Open("mysql", "root@tcp("+m.address+")/")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

// certificates issues those of the server and of a client.
func certificates(tb testing.TB, dir string) {
	tb.Helper()
	a := authority.New(tb)
	authority.Write(tb, filepath.Join(dir, "root.pem"), a.PEM())
	for _, name := range []string{"server", "client"} {
		cert, key := a.Issue(name)
		authority.Write(tb, filepath.Join(dir, name+".pem"), cert)
		authority.Write(tb, filepath.Join(dir, name+".key"), key)
	}
}

// find returns the path of a program that may be outside of PATH, as Debian's servers are for users.
func find(tb testing.TB, program string) string {
	tb.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/bin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatalf("%s is missing: run scripts/setup-mariadb.sh, or install MariaDB's server", program)
	return ""
}

// username returns the user to run the server as. Without a user, the server refuses to run as root.
func username() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return fmt.Sprint(os.Getuid())
}
