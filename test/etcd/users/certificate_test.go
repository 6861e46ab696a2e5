package users

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// secured starts a server that asks for client certificates, on a second listener.
func secured(t *testing.T, args ...string) (ca *authority.Authority, plain *client, address string) {
	t.Helper()
	ca, dir := authority.New(t), t.TempDir()
	cert, key := ca.Issue("server")
	for name, content := range map[string][]byte{"server.crt": cert, "server.key": key, "ca.crt": ca.PEM()} {
		authority.Write(t, filepath.Join(dir, name), content)
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	other, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	servers.OnlyTarget(t, append(append(cheap, "--listen-client-urls", "http://"+other+",https://"+address,
		"--advertise-client-urls", "http://"+other,
		"--cert-file", filepath.Join(dir, "server.crt"), "--key-file", filepath.Join(dir, "server.key"),
		"--trusted-ca-file", filepath.Join(dir, "ca.crt"), "--client-cert-auth"), args...)...)
	return ca, connectTo(t, other, nil), address
}

func config(ca *authority.Authority, name string) *tls.Config {
	return &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Pair(name)}, MinVersion: tls.VersionTLS12}
}

// The common name of a client's certificate is its user, unless it sends a token.
func TestCertificateName(t *testing.T) {
	ca, plain, address := secured(t)
	plain.enable()
	alice := connectTo(t, address, config(ca, "alice"))
	alice.must(alice.put("", "a/k", "v"))
	if err := alice.put("", "b", "v"); !is(err, rpctypes.ErrGRPCPermissionDenied) {
		t.Errorf("a key of others: %v", err)
	}
	alice.must(alice.put(alice.login("root", rootPassword), "b", "v"))
	if err := alice.put("abcdefghijklmnop.1", "a/k", "v"); !is(err, rpctypes.ErrGRPCInvalidAuthToken) {
		t.Errorf("a wrong token: %v", err)
	}
	stranger := connectTo(t, address, config(ca, "stranger"))
	if err := stranger.put("", "a/k", "v"); !is(err, rpctypes.ErrGRPCPermissionDenied) {
		t.Errorf("a name of no user: %v", err)
	}
	if _, err := stranger.auth.UserList(stranger.as(""), &pb.AuthUserListRequest{}); !is(err,
		rpctypes.ErrGRPCUserNotFound) {
		t.Errorf("a name of no user lists users: %v", err)
	}
	root := connectTo(t, address, config(ca, "root"))
	_, err := root.auth.UserList(root.as(""), &pb.AuthUserListRequest{})
	root.must(err)
}

// post sends a request to the JSON gateway and returns the status and the body.
func post(t *testing.T, c *http.Client, url, body string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The JSON gateway takes tokens, and never the certificate of its client.
func TestGateway(t *testing.T) {
	ca, plain, address := secured(t)
	plain.enable()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config(ca, "alice")}}
	base := "https://" + address
	const put, get = `{"key":"YS9r","value":"dg=="}`, `{"key":"YS9r"}`
	if code, body := post(t, web, base+"/v3/kv/put", put, nil); code != http.StatusBadRequest ||
		!strings.Contains(body, "user name is empty") {
		t.Errorf("without a token: %d %s", code, body)
	}
	_, body := post(t, web, base+"/v3/auth/authenticate", `{"name":"alice","password":"the password of alice"}`, nil)
	var login struct{ Token string }
	if err := json.Unmarshal([]byte(body), &login); err != nil || login.Token == "" {
		t.Fatal(body, err)
	}
	for _, value := range []string{login.Token, "Bearer " + login.Token} {
		header := http.Header{"Authorization": {value}}
		for path, request := range map[string]string{"put": put, "range": get} {
			if code, body := post(t, web, base+"/v3/kv/"+path, request, header); code != http.StatusOK {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if code, body := post(t, web, base+"/v3/kv/range", `{"key":"Yg=="}`, header); code != http.StatusForbidden ||
			!strings.Contains(body, "permission denied") {
			t.Errorf("a key of others: %d %s", code, body)
		}
	}
	wrong := http.Header{"Authorization": {"abcdefghijklmnop.1"}}
	if code, body := post(t, web, base+"/v3/kv/range", get, wrong); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %s", code, body)
	}
}

// Health, metrics and status stay open, and tell nothing about users.
func TestOpenPaths(t *testing.T) {
	s := servers.OnlyTarget(t, cheap...)
	c := connect(t, s)
	token := c.enable()
	c.must(c.put(token, "a/secret-key", "a secret value"))
	for _, base := range []string{s.ClientURL(), s.MetricsURL()} {
		for _, path := range []string{"/health", "/readyz", "/livez", "/version", "/metrics", "/status"} {
			resp, err := http.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s%s: %d, %v", base, path, resp.StatusCode, err)
			}
			for _, secret := range []string{"alice", "$2a$", token, "secret-key", "secret value", rootPassword} {
				if bytes.Contains(body, []byte(secret)) {
					t.Errorf("%s%s contains %q", base, path, secret)
				}
			}
			if path == "/metrics" && !bytes.Contains(body, []byte("etcd_debugging_auth_revision 7")) {
				t.Errorf("the auth revision is not among the metrics")
			}
		}
	}
	log := s.Log()
	for _, secret := range []string{"$2a$", token, rootPassword, "secret value"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
