package listen_test

import (
	"crypto/tls"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// withClients makes clients show certificates of a.
func withClients(a *authority.Authority, change func(f *listen.Files, dir string)) func(*listen.Files) {
	return func(f *listen.Files) {
		dir := filepath.Dir(f.Cert)
		f.TrustedCA = filepath.Join(dir, "ca")
		change(f, dir)
	}
}

// withPair returns the configuration of a client that always shows its certificate.
func withPair(p tls.Certificate) *tls.Config {
	return &tls.Config{
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &p, nil },
		ClientSessionCache:   tls.NewLRUClientSessionCache(1),
	}
}

// A client whose certificate is revoked is refused from its next handshake on, also if it resumes a session.
func TestRevokedClient(t *testing.T) {
	a := authority.New(t)
	var list string
	s := newTLSServer(t, a, withClients(a, func(f *listen.Files, dir string) {
		list = filepath.Join(dir, "crl")
		f.CRL = list
		authority.Write(t, list, a.Revoke())
	}))
	cert, key := a.Issue("client")
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	client := withPair(p)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		authority.Write(t, list, a.Revoke())
		client.MaxVersion = version
		s.want(a, client, "first")
		s.want(a, client, "first") // resumed
		authority.Write(t, list, a.Revoke(cert))
		if name, err := s.dial(a, client); err == nil {
			t.Errorf("version %x: a revoked client was let in by %q", version, name)
		}
		s.want(a, withPair(a.Pair("another")), "first")
	}
	if s.certs.State().Err != nil {
		t.Error(s.certs.State().Err)
	}
	authority.Write(t, list, []byte("garbage"))
	if _, err := s.dial(a, client); err == nil {
		t.Error("an unreadable list let a revoked client in")
	}
	if s.certs.State().Err == nil {
		t.Error("the unreadable list is not reported")
	}
}

// Only certificates for one of the hosts are accepted.
func TestAllowedHosts(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, withClients(a, func(f *listen.Files, _ string) {
		f.AllowedHosts = []string{"example.com", "localhost"}
	}))
	s.want(a, withPair(a.Pair("another")), "first") // for localhost
	if err := s.certs.SetFiles(func() listen.Files {
		f := s.files
		f.AllowedHosts = []string{"example.com"}
		return f
	}()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.dial(a, withPair(a.Pair("another"))); err == nil {
		t.Error("a client of another host was let in")
	}
}

// Only certificates with one of the common names are accepted.
func TestAllowedNames(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, withClients(a, func(f *listen.Files, _ string) {
		f.AllowedNames = []string{"other", "another"}
	}))
	s.want(a, withPair(a.Pair("another")), "first")
	if _, err := s.dial(a, withPair(a.Pair("third"))); err == nil {
		t.Error("a client with another common name was let in")
	}
	both := s.files
	both.AllowedHosts = []string{"localhost"}
	if err := both.Check(); err == nil {
		t.Error("hosts and names together were accepted")
	}
}

func TestVersionsOfTLS(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, func(f *listen.Files) { f.MaxVersion = tls.VersionTLS12 })
	if _, err := s.dial(a, &tls.Config{MinVersion: tls.VersionTLS13}); err == nil {
		t.Error("TLS 1.3 above --tls-max-version")
	}
	s.want(a, &tls.Config{}, "first")
	files := s.files
	files.MinVersion = tls.VersionTLS13
	if err := s.certs.SetFiles(files); err == nil {
		t.Error("a newest version older than the oldest was accepted")
	}
	for _, bad := range []func(*listen.Files){
		func(f *listen.Files) { f.CRL = f.Cert },
		func(f *listen.Files) { f.AllowedHosts = []string{"x"} },
		func(f *listen.Files) { f.AllowedNames = []string{"x"} },
	} {
		files := s.files
		files.TrustedCA = ""
		bad(&files)
		if err := files.Check(); err == nil {
			t.Errorf("%+v was accepted without an authority", files)
		}
	}
}

// New settings that give up a check of clients are worth a warning; others are not.
func TestLostChecks(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, withClients(a, func(f *listen.Files, dir string) {
		f.CRL, f.AllowedNames = filepath.Join(dir, "crl"), []string{"client"}
		authority.Write(t, f.CRL, a.Revoke())
	}))
	files := s.files
	set := func(warnings int, part string) {
		t.Helper()
		before := s.log.count("level=WARN")
		if err := s.certs.SetFiles(files); err != nil {
			t.Fatal(err)
		}
		if n := s.log.count("level=WARN") - before; n != warnings || s.log.count(part) == 0 {
			t.Errorf("%d warnings, want %d with %q: %s", n, warnings, part, s.log.b.String())
		}
	}
	set(0, "")
	files.AllowedNames, files.AllowedHosts = nil, []string{"localhost"}
	set(0, "")
	files.AllowedHosts = nil
	set(1, "for any host and common name")
	files.CRL = ""
	set(1, "revoked certificates are accepted, because Config.TLS.CRL is no longer set")
	files.TrustedCA = ""
	set(1, "clients need no certificate any more, because Config.TLS.TrustedCA is no longer set")
	set(0, "")
	files = s.files
	set(0, "")
}
