package listen_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// tlsServer does handshakes over real connections with the files in dir.
type tlsServer struct {
	t     *testing.T
	files listen.Files
	certs *listen.Certificates
	log   *logBuffer
	addr  string
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func newTLSServer(t *testing.T, a *authority.Authority, change func(*listen.Files)) *tlsServer {
	t.Helper()
	dir := t.TempDir()
	s := &tlsServer{t: t, log: &logBuffer{}, files: listen.Files{
		Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
	}}
	s.install(a.Issue("first"))
	authority.Write(t, filepath.Join(dir, "ca"), a.PEM())
	if change != nil {
		change(&s.files)
	}
	var err error
	if s.certs, err = listen.NewCertificates(s.files, slog.New(slog.NewTextHandler(s.log, nil))); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	var served sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
	})
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				secure := tls.Server(c, s.certs.Config())
				if secure.Handshake() == nil {
					_, _ = secure.Write([]byte("x"))
				}
			})
		}
	})
	return s
}

func (s *tlsServer) install(cert, key []byte) {
	authority.Write(s.t, s.files.Cert, cert)
	authority.Write(s.t, s.files.Key, key)
}

// dial does a handshake and returns the name on the server's certificate.
func (s *tlsServer) dial(a *authority.Authority, c *tls.Config) (string, error) {
	state, err := s.connect(a, c)
	if err != nil {
		return "", err
	}
	return state.PeerCertificates[0].Subject.CommonName, nil
}

// connect does a handshake.
func (s *tlsServer) connect(a *authority.Authority, c *tls.Config) (state tls.ConnectionState, err error) {
	c.RootCAs = a.Pool()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: c}
	conn, err := d.DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		return state, err
	}
	defer conn.Close()
	// With TLS 1.3 a client learns that its certificate was refused only when it reads.
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return state, err
	}
	return conn.(*tls.Conn).ConnectionState(), nil
}

func (s *tlsServer) want(a *authority.Authority, c *tls.Config, name string) {
	s.t.Helper()
	got, err := s.dial(a, c)
	if err != nil || got != name {
		s.t.Fatalf("got the certificate of %q, error %v, want %q", got, err, name)
	}
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, nil)
	s.want(a, &tls.Config{}, "first")
	s.install(a.Issue("second"))
	s.want(a, &tls.Config{}, "second")
	s.want(a, &tls.Config{}, "second")
	if n := s.log.count("using the new ones"); n < 1 {
		t.Errorf("the change was not logged")
	}
}

func TestBadCertificatesDoNotReplaceTheOldOnes(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, nil)
	s.want(a, &tls.Config{}, "first")
	authority.Write(t, s.files.Cert, []byte("garbage"))
	for range 5 {
		s.want(a, &tls.Config{}, "first")
	}
	if n := s.log.count("keeping the old ones"); n != 1 {
		t.Errorf("logged %d times, want once for one change", n)
	}
	// A certificate whose key has not arrived yet is as bad; both together are good.
	cert, key := a.Issue("second")
	authority.Write(t, s.files.Cert, cert)
	s.want(a, &tls.Config{}, "first")
	authority.Write(t, s.files.Key, key)
	s.want(a, &tls.Config{}, "second")
	if err := os.Remove(s.files.Key); err != nil {
		t.Fatal(err)
	}
	s.want(a, &tls.Config{}, "second")
}

// A file rewritten in place within one clock tick and with the same length must be noticed, too.
func TestChangeWithinOneTickIsSeen(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, nil)
	var first, second [2][]byte
	for len(first[0]) == 0 || len(first[0]) != len(second[0]) || len(first[1]) != len(second[1]) {
		first[0], first[1] = a.Issue("one")
		second[0], second[1] = a.Issue("two")
	}
	now := time.Now()
	put := func(files [2][]byte) {
		t.Helper()
		for i, name := range []string{s.files.Cert, s.files.Key} {
			if err := errors.Join(os.WriteFile(name, files[i], 0o600), os.Chtimes(name, now, now)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(first)
	s.want(a, &tls.Config{}, "one")
	put(second)
	s.want(a, &tls.Config{}, "two")
}

func TestClientCertificates(t *testing.T) {
	for _, aloud := range []bool{true, false} {
		t.Run(fmt.Sprintf("RequireClientCert=%v", aloud), func(t *testing.T) { testClientCertificates(t, aloud) })
	}
}

func testClientCertificates(t *testing.T, aloud bool) {
	a, stranger := authority.New(t), authority.New(t)
	s := newTLSServer(t, a, func(f *listen.Files) {
		f.TrustedCA, f.RequireClientCert = filepath.Join(filepath.Dir(f.Cert), "ca"), aloud
	})
	s.want(a, &tls.Config{Certificates: []tls.Certificate{a.Pair("client")}}, "first")
	if _, err := s.dial(a, &tls.Config{}); err == nil {
		t.Error("a client without a certificate was accepted")
	}
	outsider := &tls.Config{Certificates: []tls.Certificate{stranger.Pair("client")}}
	if _, err := s.dial(a, outsider); err == nil {
		t.Error("a client of an unknown authority was accepted")
	}
	// The authorities are read again, too.
	authority.Write(t, s.files.TrustedCA, append(a.PEM(), stranger.PEM()...))
	s.want(a, outsider, "first")
}

func TestVersionsAndSuites(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, func(f *listen.Files) { f.MinVersion = tls.VersionTLS13 })
	s.want(a, &tls.Config{}, "first")
	if _, err := s.dial(a, &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	suite := tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	s = newTLSServer(t, a, func(f *listen.Files) { f.CipherSuites = []uint16{suite} })
	s.want(a, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}, "first")
	other := &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}}
	if _, err := s.dial(a, other); err == nil {
		t.Error("another cipher suite was accepted")
	}
}

func TestUnusableFiles(t *testing.T) {
	a := authority.New(t)
	dir := t.TempDir()
	cert, key := a.Issue("x")
	name := func(n string, content []byte) string {
		path := filepath.Join(dir, n)
		authority.Write(t, path, content)
		return path
	}
	good := listen.Files{
		Cert: name("cert", cert), Key: name("key", key), TrustedCA: name("ca", a.PEM()),
		RequireClientCert: true,
	}
	_, otherKey := a.Issue("y")
	for what, change := range map[string]func(*listen.Files){
		"no key":        func(f *listen.Files) { f.Key = "" },
		"no cert":       func(f *listen.Files) { f.Cert = "" },
		"missing":       func(f *listen.Files) { f.Cert = filepath.Join(dir, "nothing") },
		"another's key": func(f *listen.Files) { f.Key = name("other", otherKey) },
		"no authority":  func(f *listen.Files) { f.TrustedCA = "" },
		"empty CA":      func(f *listen.Files) { f.TrustedCA = name("empty", nil) },
	} {
		f := good
		change(&f)
		if _, err := listen.NewCertificates(f, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	c, err := listen.NewCertificates(good, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	bad := good
	bad.Cert = filepath.Join(dir, "nothing")
	if err := c.SetFiles(bad); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
	config, err := c.Config().GetConfigForClient(nil)
	if err != nil || len(config.Certificates) != 1 {
		t.Fatalf("the good files are no longer in use: %v", err)
	}
	if leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0]); err != nil ||
		leaf.Subject.CommonName != "x" {
		t.Errorf("certificate of %v, error %v", leaf.Subject, err)
	}
}
