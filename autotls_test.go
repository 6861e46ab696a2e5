package sqlstore_test

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
)

// A server that listens on all addresses has a certificate for this machine, and warns if it advertises none of them.
func TestAllAddresses(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "[::]", ""} {
		dir := t.TempDir()
		var log logged
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{
			DataDir: dir, AutoTLS: true, ListenClientURLs: []string{"https://" + host + ":0"},
			AdvertiseClientURLs: []string{"https://" + host + ":2379"},
			Logger:              slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "other machines cannot reach: set Config.AdvertiseClientURLs") {
			t.Errorf("%q: no warning in %s", host, log.String())
		}
		files := filepath.Join(dir, "fixtures", "client")
		pair, err := tls.LoadX509KeyPair(filepath.Join(files, "cert.pem"), filepath.Join(files, "key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Leaf.VerifyHostname("localhost"); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}
