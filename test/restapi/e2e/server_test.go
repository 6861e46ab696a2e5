package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
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

// TestUnixSocket serves on a socket in the file system.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "objects.sock")
	launch.Start(t, launch.Config{Args: []string{"--listen-objects-urls", "unix://" + socket}})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	s := &store{client: &http.Client{Transport: transport}}
	s.must(t, http.StatusOK, request{url: "http://sqlstore/v1/objects/"})
}

// TestCurl uses the API as a person does.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("this test runs curl itself, which is missing: install curl: %v", err)
	}
	s := startSQLite(t)
	base := s.servers[0].ObjectsURL() + "/v1/objects"
	run := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		out, err := exec.CommandContext(ctx, curl, append([]string{"--silent", "--show-error"},
			args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("curl %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	created := parse[item](t, run("-X", "PUT", base+"/edge/lamps/kitchen", "-d", `{"value": {"on": true}}`))
	if created.Metadata.Key != "edge/lamps/kitchen" || string(created.Value) != `{"on": true}` {
		t.Fatalf("created %+v, value %s", created.Metadata, created.Value)
	}
	exists := parse[status](t, run("-X", "PUT", base+"/edge/lamps/kitchen", "-d", `{"value": 1}`))
	if exists.Reason != "AlreadyExists" {
		t.Errorf("created again: %+v", exists)
	}
	s.must(t, http.StatusCreated, request{
		method: http.MethodPut, url: s.url("edge/lamps/hall"),
		body: putJSON("1", ""),
	})
	page := run(base + "/edge/lamps/?limit=1")
	var list struct {
		Metadata struct {
			Continue           string
			RemainingItemCount int
		}
		Items []item
	}
	if err := json.Unmarshal([]byte(page), &list); err != nil || len(list.Items) != 1 ||
		list.Metadata.RemainingItemCount != 1 {
		t.Fatalf("%v: %s", err, page)
	}
	// The token goes into a URL as it is.
	if rest := run(base + "/edge/lamps/?limit=1&continue=" + list.Metadata.Continue); !strings.Contains(rest,
		`"edge/lamps/kitchen"`) {
		t.Errorf("the second page: %s", rest)
	}
	watched := run("--no-buffer", base+"/edge/lamps/?watch=true&timeoutSeconds=5")
	if lines := strings.Count(watched, "\n"); lines != 2 || strings.Count(watched, `"ADDED"`) != 2 {
		t.Errorf("watched %s, want two lines", watched)
	}
	updated := parse[item](t, run("-X", "PUT", base+"/edge/lamps/kitchen?resourceVersion="+
		created.Metadata.ResourceVersion, "-H", "Content-Type: application/octet-stream", "--data-binary", "off"))
	if string(updated.bytes()) != "off" {
		t.Errorf("updated to %q", updated.bytes())
	}
	if gone := parse[status](t, run("-X", "DELETE", base+"/edge/lamps/kitchen")); gone.Status != "Success" {
		t.Errorf("deleted: %+v", gone)
	}
	if head := run("--head", base+"/edge/lamps/hall"); !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Errorf("HEAD: %s", head)
	}
}
