package e2e

import (
	"context"
	"net/http"
	"os"
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
	env     []string         // names the database for the binary's other commands
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
	env := append(os.Environ(), "SQLSTORE_DATASTORE="+c.DSN)
	if !c.Postgres {
		env = append(os.Environ(), "SQLSTORE_DATA_DIR="+servers[0].DataDir())
	}
	return &store{servers: servers, env: env, etcd: dial(t, datastore.Endpoints(servers)...), client: newClient(t)}
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

// lists returns the URL of a collection at every replica.
func (s *store) lists(prefix string) []string {
	var all []string
	for _, server := range s.servers {
		all = append(all, server.ObjectsURL()+"/v1/objects/"+prefix)
	}
	return all
}

// compact compacts, and returns when every replica refuses older revisions.
func (s *store) compact(ctx context.Context, revision int64) error {
	if _, err := s.etcd.Compact(ctx, revision); err != nil {
		return err
	}
	for _, server := range s.servers {
		if err := s.refuses(ctx, server, revision-1); err != nil {
			return err
		}
	}
	return nil
}

// refuses waits until a server answers that a revision is compacted.
func (s *store) refuses(ctx context.Context, server *launch.Server, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		code, _, err := s.do(ctx,
			request{url: server.ObjectsURL() + "/v1/objects/?limit=1&resourceVersionMatch=Exact&resourceVersion=" +
				number(revision)})
		if err != nil || code == http.StatusGone {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// startSQLite starts a store for tests that do not depend on the database.
func startSQLite(t *testing.T, args ...string) *store {
	t.Helper()
	return start(t, datastore.Choice{Replicas: 1}, args...)
}
