package sqlstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore"
)

// logged collects a server's log.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// half opens a connection and sends bytes.
func half(t *testing.T, endpoint, sent string) net.Conn {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	return conn
}

const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

// Clients that stop halfway do not delay Close until the end of its grace period.
func TestCloseDoesNotWaitForHalfOpenConnections(t *testing.T) {
	files := certificates(t)
	for name, c := range map[string]struct {
		secure bool
		sent   string
	}{
		"nothing":                    {},
		"three bytes of a preface":   {sent: preface[:3]},
		"half a preface":             {sent: preface[:12]},
		"a preface":                  {sent: preface},
		"a greeting, and no answers": {sent: preface + emptySettings},
		"half an HTTP header":        {sent: "GET /health HTTP/1.1\r\nHost: x"},
		"half an HTTP body": {
			sent: "POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"key\":",
		},
		"nothing, TLS":                  {secure: true},
		"half a TLS record":             {secure: true, sent: "\x16\x03\x01\x02\x00\x01\x00"},
		"plaintext where TLS is served": {secure: true, sent: preface[:3]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			cfg := sqlstore.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if c.secure {
				cfg.TLS, cfg.ListenClientURLs = files, []string{"https://127.0.0.1:0"}
			}
			s, err := sqlstore.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			conn := half(t, s.Endpoints()[0], c.sent)
			if !c.secure { // the server has accepted the previous connection by then
				resp, err := http.Get(s.Endpoints()[0] + "/livez")
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if strings.Contains(log.String(), sqlstore.CutOff) {
				t.Errorf("it waited to the end of the grace period:\n%s", log.String())
			}
			_, _ = io.Copy(io.Discard, conn) // returns when the connection ends
		})
	}
}

// A failed start has no requests to cut off.
func TestFailedStartCutsNothingOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log logged
	cfg := sqlstore.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), ListenClientURLs: []string{"http://" + l.Addr().String()},
	}
	for range 50 { // both branches of a select were ready, and one of them logged a cut-off
		if _, err := sqlstore.Start(t.Context(), cfg); err == nil {
			t.Fatal("it started")
		}
	}
	if strings.Contains(log.String(), sqlstore.CutOff) {
		t.Error(log.String())
	}
}

// certificates returns the certificates of net/http/httptest.
func certificates(t *testing.T) sqlstore.TLSFiles {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f := sqlstore.TLSFiles{Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	for path, block := range map[string]*pem.Block{
		f.Cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		f.Key:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// callInFlight begins a call that ends when finish reads the rest of its answer. Until then it is silent.
func callInFlight(t *testing.T, conn *grpc.ClientConn) (finish func() error) {
	t.Helper()
	for _, key := range []string{"a", "b"} {
		put := &pb.PutRequest{Key: []byte(key), Value: make([]byte, 1<<20)}
		if _, err := pb.NewKVClient(conn).Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := pb.NewMaintenanceClient(conn).Snapshot(t.Context(), &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	return func() error {
		for {
			if _, err := stream.Recv(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// silence is longer than the timeout of idle connections.
const silence = 2 * time.Second

// A stop waits for a call that is silent for longer than the timeout of idle connections.
func TestCloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	s, c := start(t, sqlstore.Config{})
	finish, ended := callInFlight(t, c.ActiveConnection()), make(chan error, 1)
	time.AfterFunc(silence, func() { ended <- finish() })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a call in flight ended with %v", err)
	}
}

// clientProtocols are what gRPC clients offer. Close is as graceful to a client that also offers HTTP/1.1.
var clientProtocols = map[string][]string{"h2": {"h2"}, "h2 and http/1.1": {"h2", "http/1.1"}}

// dialTLS starts a server with TLS and dials it as a client that offers protocols.
func dialTLS(t *testing.T, cfg sqlstore.Config, protocols []string) (*sqlstore.Server, *grpc.ClientConn) {
	t.Helper()
	cfg.TLS, cfg.ListenClientURLs = certificates(t), []string{"https://127.0.0.1:0"}
	s, err := sqlstore.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cfg.TLS.Cert)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate", err)
	}
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: protocols})
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(s.Endpoints()[0], "https://"),
		grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}

// Whatever protocols a client offers, a stop waits for its calls in flight and ends its watches, so that it moves to
func TestCloseWaitsForCallsOverTLS(t *testing.T) {
	t.Parallel()
	for name, protocols := range clientProtocols {
		t.Run(name, func(t *testing.T) { testCloseOverTLS(t, protocols) })
	}
}

func testCloseOverTLS(t *testing.T, protocols []string) {
	ctx := t.Context()
	s, conn := dialTLS(t, sqlstore.Config{}, protocols)
	waits, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchCreateRequest{Key: []byte("k")}
	if err := waits.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: create,
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := waits.Recv(); err != nil { // created
		t.Fatal(err)
	}
	finish, ended := callInFlight(t, conn), make(chan error, 1)
	time.AfterFunc(silence, func() { ended <- finish() })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a call in flight ended with %v", err)
	}
	for err == nil {
		_, err = waits.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a watch ended with %v", err)
	}
}

// Whatever protocols a client offers, --max-concurrent-streams is the only limit on its streams.
func TestConcurrentStreams(t *testing.T) {
	for name, protocols := range clientProtocols {
		t.Run(name, func(t *testing.T) {
			const most = 300 // net/http's own limit is 250
			_, conn := dialTLS(t, sqlstore.Config{MaxConcurrentStreams: most}, protocols)
			open := func(ctx context.Context) error {
				stream, err := pb.NewWatchClient(conn).Watch(ctx)
				if err != nil {
					return err
				}
				create := &pb.WatchCreateRequest{Key: []byte("k")}
				if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
					CreateRequest: create,
				}}); err != nil {
					return err
				}
				_, err = stream.Recv()
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for i := range most {
				if err := open(ctx); err != nil {
					t.Fatalf("stream %d: %v", i+1, err)
				}
			}
			short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			defer stop()
			if err := open(short); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("one more: %v", err)
			}
		})
	}
}
