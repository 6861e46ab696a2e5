package postgres

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPasswordFile logs in with the password of a file, which is changed under the open pool.
func TestPasswordFile(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	admin(t, dsn, "CREATE ROLE replica LOGIN SUPERUSER PASSWORD 'first'")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("replica", "of-the-dsn")
	dsn = u.String()
	file := filepath.Join(t.TempDir(), "password")
	if _, err := Open(t.Context(), Config{DSN: dsn, PasswordFile: file}); err == nil ||
		!strings.Contains(err.Error(), "password") {
		t.Errorf("without the file: %v", err)
	}
	write(t, file, []byte("wrong\n"))
	_, err = Open(t.Context(), Config{DSN: dsn, PasswordFile: file})
	want := "open database " +
		Redact(dsn) + `: the database server refuses this client: password authentication failed for user "replica"`
	if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "wrong") ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("with another password: %v, want %s", err, want)
	}
	write(t, file, []byte("first\n"))
	b := openTest(t, Config{DSN: dsn, PasswordFile: file})
	wantClock(t, b, 1) // control statements already have a connection
	admin(t, s.DSN(), "ALTER ROLE replica PASSWORD 'second'")
	wantClock(t, b, 1) // over the existing connections
	b.resetPools()
	if _, err := b.Clock(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a new connection with the old password: %v", err)
	}
	write(t, file, []byte("second\n"))
	wantClock(t, b, 1)
	begin(t, b, backend.Needs{}).Rollback()
}

// TestUnreachable expects one line for an address without a server, although pgx tries it with TLS and without.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{DSN: "postgres://u@" + l.Addr().String() + "/d"})
	if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "\n") ||
		strings.Count(err.Error(), "connection refused") != 1 {
		t.Errorf("got %v", err)
	}
}

// TestTLS verifies the server's certificate, and refuses that of another authority.
func TestTLS(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	ours, dir := authority.New(t), t.TempDir()
	cert, key := ours.Issue("postgres", s.Host())
	if err := s.ServeTLS(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	ourFile, otherFile := filepath.Join(dir, "ours"), filepath.Join(dir, "other")
	authority.Write(t, ourFile, ours.PEM())
	authority.Write(t, otherFile, authority.New(t).PEM())
	b := openTest(t, Config{DSN: with(dsn, "sslmode", "verify-full", "sslrootcert", ourFile)})
	wantClock(t, b, 1)
	begin(t, b, backend.Needs{}).Rollback()
	encrypted := false
	err := b.reads.query(t.Context(), "ask", nil, func(s *scanner) error { encrypted = s.boolean(); return nil },
		"SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
	if err != nil || !encrypted {
		t.Errorf("encrypted: %t, %v", encrypted, err)
	}
	untrusted := with(dsn, "sslmode", "verify-full", "sslrootcert", otherFile)
	wantRefused(t, "another authority", untrusted, "correct sslrootcert")
}
