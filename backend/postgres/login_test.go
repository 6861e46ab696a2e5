package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
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

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	a.key, a.cert = certificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	write(t, a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	return a
}

// certificate makes a certificate, signed by signer or by itself.
func certificate(t *testing.T, c *x509.Certificate, signer *authority) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour)
	if signer == nil {
		signer = &authority{key: key, cert: c}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return key, c
}

// TestTLS verifies the server's certificate, and refuses those of another authority and of another host.
func TestTLS(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{host}
	}
	key, cert := certificate(t, tmpl, ours)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	err = s.ServeTLS(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := openTest(t, Config{DSN: with(dsn, "sslmode", "verify-full", "sslrootcert", ours.file)})
	wantClock(t, b, 1)
	begin(t, b, backend.Needs{}).Rollback()
	encrypted := false
	err = b.reads.query(t.Context(), "ask", nil, func(s *scanner) error { encrypted = s.boolean(); return nil },
		"SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
	if err != nil || !encrypted {
		t.Errorf("encrypted: %t, %v", encrypted, err)
	}
	_, err = Open(t.Context(), Config{DSN: with(dsn, "sslmode", "verify-full", "sslrootcert", other.file)})
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a certificate of another authority: %v", err)
	}
	elsewhere := with(dsn, "sslmode", "verify-full", "sslrootcert", ours.file)
	elsewhere = strings.Replace(elsewhere, net.JoinHostPort(host, port), net.JoinHostPort("localhost", port), 1)
	if host == "localhost" {
		t.Fatal("the server's address is a name")
	}
	_, err = Open(t.Context(), Config{DSN: elsewhere})
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "localhost") {
		t.Errorf("a certificate of another host: %v", err)
	}
}
