package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// testTimeout limits every wait: generous, because tests share slow machines.
const testTimeout = 2 * time.Minute

// store is one sqlstore through all its replicas.
type store struct {
	servers []*launch.Server
	etcd    *clientv3.Client // knows all replicas
	client  *http.Client
	turn    atomic.Int64
}

// onEach runs a test over SQLite and over Postgres with two replicas.
func onEach(t *testing.T, test func(t *testing.T, s *store), args ...string) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, start(t, datastore.Choice{Replicas: 1}, args...)) })
	t.Run("postgres", func(t *testing.T) { test(t, start(t, datastore.Choice{Postgres: true, Replicas: 2}, args...)) })
}

func start(t *testing.T, c datastore.Choice, args ...string) *store {
	t.Helper()
	if c.Postgres {
		c.DSN = pgserver.Database(t)
	}
	servers := c.Start(t, launch.Config{Objects: true, Args: append([]string{"--log-level", "warn"}, args...)})
	return &store{servers: servers, etcd: dial(t, datastore.Endpoints(servers)...), client: newClient(t)}
}

// dial connects an etcd client.
func dial(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: testTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newClient returns an HTTP client with its own connections.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// next returns the base URL of the next replica in turn.
func (s *store) next() string {
	return s.servers[int(s.turn.Add(1))%len(s.servers)].ObjectsURL()
}

// url returns the URL of a key, or of a collection, at the next replica in turn.
func (s *store) url(key string) string { return s.next() + "/v1/objects/" + key }
