package sqlstore_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// fromElsewhere returns the address of a console that other machines can reach, as this machine does.
func fromElsewhere(s *sqlstore.Server) string {
	url := s.ConsoleEndpoints()[0]
	return "https://127.0.0.1" + url[strings.LastIndex(url, ":"):]
}

// consoleFiles returns the files of a server with a certificate of an authority.
func consoleFiles(t *testing.T, a *authority.Authority) sqlstore.TLSFiles {
	t.Helper()
	dir := t.TempDir()
	f := sqlstore.TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	cert, key := a.Issue("server")
	authority.Write(t, f.Cert, cert)
	authority.Write(t, f.Key, key)
	authority.Write(t, filepath.Join(dir, "ca"), a.PEM())
	return f
}

// browserOf returns a client that trusts an authority, with certificates of its own.
func browserOf(t *testing.T, a *authority.Authority, own ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool(), Certificates: own}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// local serves what a console gets.
func local(_ context.Context, local http.Handler) http.Handler { return local }

// enableAuth enables authentication, and returns a client of root.
func enableAuth(t *testing.T, s *sqlstore.Server, c *clientv3.Client) *clientv3.Client {
	t.Helper()
	_, err := c.UserAdd(t.Context(), "root", "r")
	if err == nil {
		_, err = c.UserGrantRole(t.Context(), "root", "root")
	}
	if err == nil {
		_, err = c.AuthEnable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Username: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

// Other machines get pages only while users have to log in.
func TestConsoleNeedsUsers(t *testing.T) {
	a := authority.New(t)
	cfg := sqlstore.Config{
		ListenConsoleURLs: []string{"https://0.0.0.0:0"}, Console: local, TLS: consoleFiles(t, a), BcryptCost: 4,
	}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	s, c := start(t, cfg)
	url, browser := fromElsewhere(s), browserOf(t, a)
	all := func(code int, keys int) {
		t.Helper()
		wantCode(t, browser, "GET", url+"/status", "", code)
		wantCode(t, browser, "GET", url+"/v1/auth", "", code)
		wantCode(t, browser, "GET", url+"/v1/objects/", "", keys)
	}
	all(403, 403)
	admin := enableAuth(t, s, c)
	all(200, 401)
	if _, err := admin.AuthDisable(t.Context()); err != nil {
		t.Fatal(err)
	}
	all(403, 403)

	cfg.ListenConsoleURLs = []string{"https://127.0.0.1:0"}
	s, _ = start(t, cfg)
	url = s.ConsoleEndpoints()[0]
	all(200, 200)
}

// A request that was let in does not read keys once authentication is disabled.
func TestConsoleNeedsUsersStill(t *testing.T) {
	a := authority.New(t)
	let, read := make(chan struct{}), make(chan struct{})
	s, c := start(t, sqlstore.Config{
		ListenConsoleURLs: []string{"https://0.0.0.0:0"}, TLS: consoleFiles(t, a), BcryptCost: 4,
		Console: func(_ context.Context, local http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				let <- struct{}{}
				<-read
				local.ServeHTTP(w, r)
			})
		},
	})
	admin := enableAuth(t, s, c)
	go func() {
		<-let
		if _, err := admin.AuthDisable(t.Context()); err != nil {
			t.Error(err)
		}
		close(read)
	}()
	wantCode(t, browserOf(t, a), "GET", fromElsewhere(s)+"/v1/objects/", "", 403)
}

// A client certificate that names its user will do, as long as it is demanded.
func TestConsoleCertificates(t *testing.T) {
	a := authority.New(t)
	files := consoleFiles(t, a)
	trusting, naming := files, files
	trusting.TrustedCA = filepath.Join(filepath.Dir(files.Cert), "ca")
	naming.TrustedCA, naming.RequireClientCert = trusting.TrustedCA, true
	alice := a.Pair("alice")
	for name, c := range map[string]struct {
		files sqlstore.TLSFiles
		code  int
	}{"certificates name users": {naming, 200}, "certificates do not": {trusting, 403}} {
		t.Run(name, func(t *testing.T) {
			s, _ := start(t, sqlstore.Config{
				ListenConsoleURLs: []string{"https://0.0.0.0:0"}, Console: local, TLS: c.files,
			})
			url := fromElsewhere(s)
			wantCode(t, browserOf(t, a, alice), "GET", url+"/status", "", c.code)
			wantCode(t, browserOf(t, a, alice), "GET", url+"/v1/objects/", "", c.code)
			if resp, err := fetch(t, browserOf(t, a), "GET", url+"/status", ""); err == nil {
				t.Errorf("without a certificate: %s", resp.Status)
			}
			if err := s.Reload(sqlstore.Reload{TLS: files}); err != nil {
				t.Fatal(err)
			}
			wantCode(t, browserOf(t, a), "GET", url+"/status", "", 403)
		})
	}
}
