package listen_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// reached reports which of the clients with and without TLS a listener serves.
// onlyHTTP2 is an HTTP client that offers nothing else.
type reached struct{ grpc, http, http2, onlyHTTP2, grpcPlain, httpPlain bool }

func reach(t *testing.T, b *both, a *authority.Authority) reached {
	t.Helper()
	check := func(creds credentials.TransportCredentials) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		return err == nil
	}
	fetch := func(url string, http1, http2 bool) bool {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: a.Pool()}, Protocols: new(http.Protocols),
		}
		transport.Protocols.SetHTTP1(http1)
		transport.Protocols.SetHTTP2(http2)
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	return reached{
		grpc:  check(credentials.NewTLS(&tls.Config{RootCAs: a.Pool()})),
		http:  fetch("https://"+b.addr, true, false),
		http2: fetch("https://"+b.addr, true, true), onlyHTTP2: fetch("https://"+b.addr, false, true),
		grpcPlain: check(insecure.NewCredentials()),
		httpPlain: fetch("http://"+b.addr, true, false),
	}
}

// A listener serves the clients of its mode and no others.
func TestModes(t *testing.T) {
	a := authority.New(t)
	config := tlsConfig(t, a, false)
	for name, c := range map[string]struct {
		mode listen.Mode
		want reached
	}{
		"http":           {listen.Mode{Plaintext: true}, reached{grpcPlain: true, httpPlain: true}},
		"https":          {listen.Mode{TLS: config}, reached{grpc: true, http: true, http2: true}},
		"http and https": {listen.Mode{TLS: config, Plaintext: true}, reached{true, true, true, false, true, true}},
		"only gRPC":      {listen.Mode{OnlyGRPC: true}, reached{grpcPlain: true}},
		"only HTTP":      {listen.Mode{OnlyHTTP: true}, reached{httpPlain: true}},
		"only gRPC, TLS": {listen.Mode{TLS: config, OnlyGRPC: true}, reached{grpc: true}},
		// the test's HTTP server passes gRPC calls on
		"only HTTP, TLS": {
			listen.Mode{TLS: config, OnlyHTTP: true},
			reached{grpc: true, http: true, http2: true, onlyHTTP2: true},
		},
		"only HTTP, both": {
			listen.Mode{TLS: config, Plaintext: true, OnlyHTTP: true},
			reached{grpc: true, http: true, http2: true, onlyHTTP2: true, httpPlain: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reach(t, serveMode(t, c.mode), a); got != c.want {
				t.Errorf("reached %+v, want %+v", got, c.want)
			}
		})
	}
}
