package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// TestOffByDefault starts a server without the API's flag: no port of it serves the API.
func TestOffByDefault(t *testing.T) {
	server := launch.Start(t, launch.Config{})
	s := &store{client: newClient(t)}
	for _, base := range []string{server.ClientURL(), server.MetricsURL()} {
		for _, path := range []string{"/v1/objects/", "/v1/objects/a", "/openapi.json"} {
			s.must(t, http.StatusNotFound, request{url: base + path})
		}
	}
}

// TestPlaintextRefused starts a server that would listen beyond the loopback interface without TLS.
func TestPlaintextRefused(t *testing.T) {
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	everywhere := []string{"--listen-objects-urls", "http://0.0.0.0:" + port}
	_, err = launch.TryStart(t, launch.Config{Args: everywhere})
	if err == nil || !strings.Contains(err.Error(), "--insecure-plaintext") {
		t.Fatalf("started with %v, want a refusal that names --insecure-plaintext: %v", everywhere, err)
	}
	launch.Start(t, launch.Config{Args: append(everywhere, "--insecure-plaintext")})
	s := &store{client: newClient(t)}
	s.must(t, http.StatusOK, request{url: "http://127.0.0.1:" + port + "/v1/objects/"})
}

// TestTLS serves with certificates, and refuses clients without one, or with one of another authority.
func TestTLS(t *testing.T) {
	ours, others := authority.New(t), authority.New(t)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		authority.Write(t, path, content)
		return path
	}
	cert, key := ours.Issue("server")
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	// etcd's port uses the same files, and launch checks a third one, without TLS, for readiness.
	client, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	launch.Start(t, launch.Config{Args: []string{
		"--listen-objects-urls", "https://" + address, "--listen-client-urls", "https://" + client,
		"--advertise-client-urls", "https://" + client,
		"--cert-file", file("cert", cert), "--key-file", file("key", key), "--trusted-ca-file", file("ca", ours.PEM()),
		"--client-cert-auth",
	}})
	with := func(certificates ...tls.Certificate) *store {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.Pool(), Certificates: certificates}}
		t.Cleanup(transport.CloseIdleConnections)
		return &store{client: &http.Client{Transport: transport}}
	}
	url := "https://" + address + "/v1/objects/a"
	with(ours.Pair("client")).must(t, http.StatusCreated, request{
		method: http.MethodPut, url: url,
		body: putJSON("1", ""),
	})
	for name, s := range map[string]*store{"none": with(), "another authority's": with(others.Pair("client"))} {
		if code, body, err := s.do(t.Context(), request{url: url}); err == nil {
			t.Errorf("certificate %s: answered %d %s, want no connection", name, code, body)
		}
	}
	plain := &store{client: newClient(t)}
	if code, body, err := plain.do(t.Context(), request{url: "http://" + address + "/v1/objects/a"}); err == nil &&
		code != http.StatusBadRequest {
		t.Errorf("without TLS: %d %s", code, body)
	}
}

// TestTooLarge sends more than the flag allows.
func TestTooLarge(t *testing.T) {
	s := start(t, datastore.Choice{Replicas: 1}, "--max-request-bytes", "65536")
	put := func(bytes int) request {
		return request{
			method: http.MethodPut, url: s.url("a"), body: putJSON(`"`+strings.Repeat("x", bytes)+`"`, ""),
		}
	}
	s.must(t, http.StatusRequestEntityTooLarge, put(70_000))
	s.must(t, http.StatusCreated, put(60_000))
}
