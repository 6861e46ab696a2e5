package etcdshim

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/store"
)

// served is a server over its own store, with a connection to it.
type served struct {
	*Server
	store *store.Store
	conn  *grpc.ClientConn
	kv    pb.KVClient
	watch pb.WatchClient
	lease pb.LeaseClient
	maint pb.MaintenanceClient
}

func serve(t testing.TB, o Options, c store.Config) *served {
	t.Helper()
	b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return serveOn(t, b, o, c)
}

func serveOn(t testing.TB, b backend.Backend, o Options, c store.Config) *served {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, b, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	srv, err := NewServer(ctx, st, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.GRPC.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		srv.Shutdown(ctx)
		srv.Close()
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &served{
		Server: srv, store: st, conn: conn, kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn),
		lease: pb.NewLeaseClient(conn), maint: pb.NewMaintenanceClient(conn),
	}
}

// overHTTP connects to Server.HTTP, like a client that also offers HTTP/1.1.
func (s *served) overHTTP(t testing.TB) *grpc.ClientConn {
	t.Helper()
	front := httptest.NewUnstartedServer(s.HTTP)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	config := front.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	conn, err := grpc.NewClient(front.Listener.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// put writes a key and returns the revision.
func (s *served) put(t testing.TB, key, value string) int64 {
	t.Helper()
	r, err := s.kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// grant grants a lease.
func (s *served) grant(t testing.TB, ttl int64) int64 {
	t.Helper()
	r, err := s.lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// eventually waits for something that sends no signal: the end of other programs' calls, connections and goroutines.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		case <-tick.C:
		}
	}
}
