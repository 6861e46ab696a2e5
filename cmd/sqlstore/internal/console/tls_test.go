package console_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// Over TLS, no other host and no plain HTTP can set the cookie, and a certificate names a user until another signs in.
func TestLoginOverTLS(t *testing.T) {
	t.Parallel()
	a := authority.New(t)
	dir := t.TempDir()
	files := sqlstore.TLSFiles{
		Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), TrustedCA: filepath.Join(dir, "ca"),
		RequireClientCert: true,
	}
	cert, key := a.Issue("server")
	authority.Write(t, files.Cert, cert)
	authority.Write(t, files.Key, key)
	authority.Write(t, files.TrustedCA, a.PEM())
	server, err := sqlstore.Start(t.Context(), sqlstore.Config{
		ListenConsoleURLs: []string{"https://0.0.0.0:0"}, TLS: files, BcryptCost: 4,
		Console: func(ctx context.Context, local http.Handler) http.Handler {
			return console.New(ctx, local, console.Options{Logger: slog.New(slog.DiscardHandler)})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	etcd, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	url := server.ConsoleEndpoints()[0]
	port := url[strings.LastIndex(url, ":")+1:]
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: a.Pool(), Certificates: []tls.Certificate{a.Pair("bob")},
	}}
	t.Cleanup(transport.CloseIdleConnections)
	s := &served{
		t: t, server: server, client: etcd, url: "https://127.0.0.1:" + port, transport: transport, log: &logged{},
	}
	s.users()
	const signIn = `<a href="/login">Sign in</a>`
	s.once("GET", "/browse", nil, navigate).want(403, "<bdi>bob</bdi>", signIn).without("Sign out")
	s.once("GET", "/", nil, navigate).want(200, signIn)
	cookie := s.once("POST", "/login", credentials("alice", "secret"), navigate).leads("/").header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-sqlstore-"+port+"=") ||
		!strings.HasSuffix(cookie, "; Path=/; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("the cookie %q", cookie)
	}
	mine, _, _ := strings.Cut("Cookie: "+cookie, ";")
	s.once("GET", "/browse?prefix=/a/", nil, navigate, mine).want(200, "<bdi>alice</bdi>", "Sign out").
		without(signIn)
	plain := strings.Replace(mine, "__Host-", "", 1)
	s.once("GET", "/browse?prefix=/a/", nil, navigate, plain).want(403, "<bdi>bob</bdi>")
	s.once("POST", "/logout", credentials("", ""), navigate, mine, "Origin: https://localhost:"+port).want(403)

	// A certificate without a name is no user.
	nameless := transport.Clone()
	nameless.TLSClientConfig.Certificates = []tls.Certificate{a.Pair("")}
	t.Cleanup(nameless.CloseIdleConnections)
	s.transport = nameless
	s.once("GET", "/browse", nil, navigate).leads("/login?next=%2Fbrowse")
}
