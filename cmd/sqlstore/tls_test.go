package main_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// secureEndpoint finds the server's TLS address in its log.
func secureEndpoint(t *testing.T, l *log) string {
	t.Helper()
	var ready struct{ Endpoints []string }
	if err := json.Unmarshal([]byte(l.wait(t, `"msg":"ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	for _, url := range ready.Endpoints {
		if address, ok := strings.CutPrefix(url, "https://"); ok {
			return address
		}
	}
	t.Fatalf("no https among %q", ready.Endpoints)
	return ""
}

// call makes each kind of call that clients make on one address, each on a new connection, and returns the errors by
// what was tried.
func call(t *testing.T, address string, config *tls.Config) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, overGRPC := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	either := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	onlyHTTP2 := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, Protocols: new(http.Protocols)}
	onlyHTTP2.Protocols.SetHTTP2(true)
	fetch := func(transport *http.Transport, method, path, body, want string) error {
		req, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, %.300s; want %s", path, resp.Status, err, text, want)
		}
		return nil
	}
	return map[string]error{
		"gRPC":    overGRPC,
		"gateway": fetch(either, http.MethodPost, "/v3/kv/range", `{"key": "aw=="}`, `"value":"dg=="`),
		"metrics": fetch(either, http.MethodGet, "/metrics", "", `etcd_mvcc_put_total`),
		"health":  fetch(either, http.MethodGet, "/health", "", `"true"`),

		"gateway over HTTP/2": fetch(onlyHTTP2, http.MethodPost, "/v3/kv/range", `{"key": "aw=="}`, `"value":"dg=="`),
		"version over HTTP/2": fetch(onlyHTTP2, http.MethodGet, "/version", "", `"etcdserver"`),
		"ready over HTTP/2":   fetch(onlyHTTP2, http.MethodGet, "/readyz", "", ``),
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ours, stranger := authority.New(t), authority.New(t)
	install := func(name string) {
		certificate, key := ours.Issue(name)
		authority.Write(t, file("crt"), certificate)
		authority.Write(t, file("key"), key)
	}
	install("first")
	authority.Write(t, file("ca"), ours.PEM())
	l := newLog()
	launch.Start(t, launch.Config{Log: l, Args: []string{
		"--listen-client-urls", "https://127.0.0.1:0", "--cert-file", file("crt"), "--key-file", file("key"),
		"--trusted-ca-file", file("ca"), "--client-cert-auth", "--host-whitelist", "only.without.tls",
	}})
	address := secureEndpoint(t, l)
	good := clientOf(ours, ours)

	for what, err := range call(t, address, good) {
		if err != nil {
			t.Errorf("%s with a certificate: %v", what, err)
		}
	}
	without := good.Clone()
	without.GetClientCertificate = nil
	for name, config := range map[string]*tls.Config{
		"no certificate":           without,
		"a stranger's certificate": clientOf(stranger, ours),
	} {
		for what, err := range call(t, address, config) {
			if err == nil || what == "gRPC" && status.Code(err) != codes.Unavailable {
				t.Errorf("%s with %s: %v, want that the connection is refused", what, name, err)
			}
		}
	}

	served := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", address, good)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	old, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(good)))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	put := func() {
		t.Helper()
		if _, err := pb.NewKVClient(old).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Error(err)
		}
	}
	put()
	if got := served(); got != "first" {
		t.Errorf("the %s certificate, want the first", got)
	}
	install("second")
	if got := served(); got != "second" {
		t.Errorf("the %s certificate after the file was replaced", got)
	}
	put() // on the connection from before
}

// clientOf returns the TLS configuration of a client that trusts trusted and has a certificate of a.
func clientOf(a, trusted *authority.Authority) *tls.Config {
	pair := a.Pair("client")
	// The client sends it whichever authorities the server lists, as an attacker would.
	return &tls.Config{
		RootCAs: trusted.Pool(), MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, nil
		},
	}
}
