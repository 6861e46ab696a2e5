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

// Suites with known security issues are served, as by etcd, with a warning.
func TestInsecureSuites(t *testing.T) {
	const secure, insecure = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA
	for _, suites := range [][]uint16{{secure}, {secure, insecure}} {
		var log logged
		files := certificates(t)
		files.CipherSuites = suites
		start(t, sqlstore.Config{
			ListenClientURLs: []string{"https://127.0.0.1:0"}, TLS: files,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		warned := strings.Contains(log.String(), "suites=[TLS_RSA_WITH_3DES_EDE_CBC_SHA]")
		if warned != (len(suites) > 1) {
			t.Errorf("%v: %s", suites, log.String())
		}
	}
}
