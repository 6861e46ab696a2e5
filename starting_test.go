package sqlstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// endpoint is a way to reach a server that starts.
type endpoint struct {
	name, url string
	creds     credentials.TransportCredentials // of a gRPC client
	http      *http.Transport                  // of an HTTP client, instead
}

// ask sends a request and returns what the server says if it does not serve it.
func (e *endpoint) ask(t *testing.T, conn *grpc.ClientConn) (refusal string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if conn != nil {
		_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("k")})
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", e.name, err)
		}
		return status.Convert(err).Message()
	}
	// net/http would wait for a body that does not come
	body, writer := io.Pipe()
	defer writer.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, e.url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 100
	resp, err := e.http.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s: %s, %v", e.name, resp.Status, err)
	}
	return string(text)
}

func dialed(t *testing.T, e *endpoint) *grpc.ClientConn {
	t.Helper()
	if e.creds == nil {
		return nil
	}
	address := strings.TrimPrefix(strings.TrimPrefix(e.url, "http://"), "https://")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(e.creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ends waits until the server closes a connection.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server keeps the connection")
	}
}

// While a start waits for its database, every listener refuses requests at once and says why, and frees connections.
// Those that are still open go over to the server that serves them.
func TestStartRefusesRequests(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	cfg := sqlstore.Config{Datastore: server.Database(t), TLS: certificates(t)}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	var plain, secure, objects, secureObjects string
	for _, at := range []*string{&plain, &secure, &objects, &secureObjects} {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		*at = address
	}
	socket := "unix://" + filepath.Join(t.TempDir(), "s.sock")
	cfg.ListenClientURLs = []string{"http://" + plain, "https://" + secure, socket}
	cfg.ListenObjectsURLs = []string{"http://" + objects, "https://" + secureObjects}
	h2 := func(tls *tls.Config) *http.Transport {
		p := new(http.Protocols)
		p.SetHTTP2(tls != nil)
		p.SetUnencryptedHTTP2(tls == nil)
		return &http.Transport{Protocols: p, TLSClientConfig: tls}
	}
	anyServer := func(protocols ...string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols} // #nosec G402 -- any server will do
	}
	endpoints := []endpoint{
		{name: "gRPC", url: "http://" + plain, creds: insecure.NewCredentials()},
		{name: "gRPC over a unix socket", url: socket, creds: insecure.NewCredentials()},
		{name: "gRPC over TLS", url: "https://" + secure, creds: credentials.NewTLS(anyServer())},
		{
			name: "gRPC over TLS that also offers HTTP/1.1", url: "https://" + secure,
			creds: credentials.NewTLS(anyServer("h2", "http/1.1")),
		},
		{name: "gateway", url: "http://" + plain + "/v3/kv/put", http: &http.Transport{}},
		{name: "HTTP/2", url: "http://" + plain, http: h2(nil)},
		{name: "HTTP/2 over TLS", url: "https://" + secure, http: h2(anyServer())},
		{name: "objects", url: "http://" + objects + "/v1/objects/k", http: &http.Transport{}},
		{name: "objects over HTTP/2", url: "http://" + objects + "/v1/objects/k", http: h2(nil)},
		{
			name: "objects over TLS", url: "https://" + secureObjects + "/v1/objects/k",
			http: &http.Transport{TLSClientConfig: anyServer()},
		},
	}
	started := make(chan *sqlstore.Server, 1)
	go func() {
		s, err := sqlstore.Start(t.Context(), cfg)
		if err != nil {
			t.Error(err)
		}
		started <- s
	}()
	eventually(t, "the start waits", func() error {
		return probe("http://"+plain+"/readyz", http.StatusServiceUnavailable, "Ready False DatabaseUnreachable")
	})
	var conns []*grpc.ClientConn
	for i := range endpoints {
		conns = append(conns, dialed(t, &endpoints[i]))
		if text := endpoints[i].ask(t, conns[i]); !strings.Contains(text, "the database is not usable yet") {
			t.Errorf("%s: refused with %q", endpoints[i].name, text)
		}
	}
	for _, address := range []string{plain, objects} {
		conn := half(t, "http://"+address, preface+emptySettings)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		ends(t, conn)
	}
	early := half(t, "http://"+plain, preface+emptySettings)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	s := <-started
	if s == nil {
		return
	}
	defer s.Close()
	for i, conn := range conns {
		if conn != nil {
			if text := endpoints[i].ask(t, conn); text != "" {
				t.Errorf("%s: refused with %q after the start", endpoints[i].name, text)
			}
		}
	}
	if err := probe("http://"+objects+"/v1/objects/", http.StatusOK, ""); err != nil {
		t.Error(err)
	}
	ends(t, early) // its client connects again, to the gRPC server
}

// A call that arrives while the server starts is served, as by an etcd that does not listen yet.
func TestCallDuringStart(t *testing.T) {
	t.Parallel()
	soon := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond},
		// Without it the client closes a connection that takes longer than the delay, even while a call uses it.
		MinConnectTimeout: time.Minute,
	}
	for range 20 {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(soon))
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := pb.NewKVClient(conn).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}, grpc.WaitForReady(true))
			answered <- err
		}()
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{ListenClientURLs: []string{"http://" + address}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if err := errors.Join(conn.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}
