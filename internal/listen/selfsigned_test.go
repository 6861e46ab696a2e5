package listen_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// A client that trusts the generated certificate connects; the certificate is kept while it fits.
func TestSelfSigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fixtures", "client")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	renew := func(hosts ...string) bool {
		t.Helper()
		made, err := listen.SelfSigned(cert, key, hosts, 2)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	if !renew("127.0.0.1", "localhost") || renew("127.0.0.1") || !renew("example.com", "127.0.0.1") {
		t.Error("want a new certificate only if the old one does not cover the hosts")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if days := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore).Hours() / 24; days < 729 || days > 732 {
		t.Errorf("valid for %.0f days, want two years", days)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, %v", info.Mode(), err)
	}
	certs, err := listen.NewCertificates(listen.Files{Cert: cert, Key: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := serveBoth(t, certs.Config())
	trusted := x509.NewCertPool()
	trusted.AddCert(pair.Leaf)
	conn, err := tls.Dial("tcp", b.addr, &tls.Config{RootCAs: trusted})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
