package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// both serves gRPC's health service and HTTP on one port.
type both struct {
	addr  string
	split *listen.Split

	mu   sync.Mutex
	seen *peer.Peer // of the last gRPC call
}

func serveBoth(t *testing.T, config *tls.Config) *both {
	t.Helper()
	return serveMode(t, listen.Mode{TLS: config})
}

func serveMode(t *testing.T, mode listen.Mode) *both {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &both{addr: l.Addr().String(), split: listen.NewSplit(l, mode, slog.New(slog.DiscardHandler))}
	g := grpc.NewServer(grpc.Creds(listen.Credentials()), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			p, _ := peer.FromContext(ctx)
			b.mu.Lock()
			b.seen = p
			b.mu.Unlock()
			return next(ctx, req)
		}))
	healthpb.RegisterHealthServer(g, health.NewServer())
	h := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: listen.ShowTLS(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == "application/grpc" {
				g.ServeHTTP(w, r)
				return
			}
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%s %v", r.Proto, r.TLS != nil)
			if n > 0 {
				fmt.Fprintf(w, " %d", n)
			}
		})),
		ConnContext: listen.WithConn, Protocols: new(http.Protocols),
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(b.split.GRPC) })
	served.Go(func() { _ = h.Serve(b.split.HTTP) })
	t.Cleanup(func() {
		g.Stop()
		_ = h.Close()
		if err := b.split.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	return b
}

func (b *both) check(t *testing.T, creds credentials.TransportCredentials) {
	t.Helper()
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
}

func (b *both) peer() *peer.Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func get(t *testing.T, transport *http.Transport, url string) string {
	t.Helper()
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestSplitPlaintext(t *testing.T) {
	b := serveBoth(t, nil)
	b.check(t, insecure.NewCredentials())
	if got := b.peer().AuthInfo.AuthType(); got != "insecure" {
		t.Errorf("auth type %q", got)
	}
	if got := get(t, &http.Transport{}, "http://"+b.addr); got != "HTTP/1.1 false" {
		t.Errorf("got %q", got)
	}
}

func tlsConfig(t *testing.T, a *authority.Authority, clients bool) *tls.Config {
	t.Helper()
	dir := t.TempDir()
	f := listen.Files{
		Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
	}
	if clients {
		f.TrustedCA = filepath.Join(dir, "ca")
		authority.Write(t, f.TrustedCA, a.PEM())
	}
	cert, key := a.Issue("server")
	authority.Write(t, f.Cert, cert)
	authority.Write(t, f.Key, key)
	c, err := listen.NewCertificates(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c.Config()
}

func TestSplitTLS(t *testing.T) {
	a := authority.New(t)
	b := serveBoth(t, tlsConfig(t, a, true))
	client := func() *tls.Config {
		return &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{a.Pair("alice")}}
	}
	b.check(t, credentials.NewTLS(client()))
	info, ok := b.peer().AuthInfo.(credentials.TLSInfo)
	if !ok || info.State.VerifiedChains[0][0].Subject.CommonName != "alice" ||
		info.SecurityLevel != credentials.PrivacyAndIntegrity {
		t.Errorf("the server does not see its client's certificate: %+v", b.peer().AuthInfo)
	}
	// A gRPC client that offers HTTP/1.1 as well, as some libraries do.
	mixed := client()
	mixed.NextProtos = []string{"h2", "http/1.1"}
	b.check(t, credentials.NewTLS(mixed))

	if got := get(t, &http.Transport{TLSClientConfig: client()}, "https://"+b.addr); got != "HTTP/1.1 true" {
		t.Errorf("HTTP/1 client: got %q", got)
	}
	if got := get(t, &http.Transport{TLSClientConfig: client(), ForceAttemptHTTP2: true},
		"https://"+b.addr); got != "HTTP/2.0 true" {
		t.Errorf("HTTP/2 client: got %q", got)
	}
}

// A silent client blocks neither other clients nor Close.
func TestSilentClient(t *testing.T) {
	a := authority.New(t)
	for name, config := range map[string]*tls.Config{"plaintext": nil, "TLS": tlsConfig(t, a, false)} {
		t.Run(name, func(t *testing.T) {
			b := serveBoth(t, config)
			silent, err := net.Dial("tcp", b.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			if config == nil {
				b.check(t, insecure.NewCredentials())
			} else {
				b.check(t, credentials.NewTLS(&tls.Config{RootCAs: a.Pool()}))
			}
			if err := b.split.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a closed connection", err)
			}
		})
	}
}

// Only the given client is disconnected.
func TestHangUp(t *testing.T) {
	b := serveBoth(t, nil)
	var conns [2]net.Conn
	for i := range conns {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: test\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	b.split.HangUp(conns[0].LocalAddr())
	if _, err := io.Copy(io.Discard, conns[0]); err != nil {
		t.Error(err)
	}
	if _, err := conns[1].Write([]byte("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(conns[1])
	if err != nil || bytes.Count(rest, []byte("TTP/1.1 200")) != 2 {
		t.Errorf("the other client got %q, %v", rest, err)
	}
}

// On a unix socket all clients have the same address, and yet only the given one is disconnected.
func TestHangUpOnUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	split := listen.NewSplit(l, listen.Mode{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = split.Close() })
	var clients, accepted [2]net.Conn
	for i := range clients {
		if clients[i], err = net.Dial("unix", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		if _, err := clients[i].Write([]byte("GET")); err != nil {
			t.Fatal(err)
		}
		if accepted[i], err = split.HTTP.Accept(); err != nil {
			t.Fatal(err)
		}
		defer accepted[i].Close()
	}
	split.HangUp(accepted[0].RemoteAddr())
	if _, err := accepted[0].Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a disconnected client can be written to: %v", err)
	}
	if _, err := accepted[1].Write([]byte("x")); err != nil {
		t.Errorf("the other client: %v", err)
	}
}

func TestClosedSplitAcceptsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := listen.NewSplit(l, listen.Mode{}, slog.New(slog.DiscardHandler))
	if s.GRPC.Addr().String() != l.Addr().String() {
		t.Errorf("address %s, want %s", s.GRPC.Addr(), l.Addr())
	}
	if err := s.HTTP.Close(); err != nil {
		t.Fatal(err)
	}
	for _, half := range []net.Listener{s.GRPC, s.HTTP} {
		if _, err := half.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want net.ErrClosed", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
