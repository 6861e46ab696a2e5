// Package live copies from servers of the etcd API while they run: from etcd, and from sqlstore.
package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer/etcdfile"
)

// dialTimeout is how long a connection, and the first answer, may take.
const dialTimeout = 10 * time.Second

// Server says how to reach a server.
type Server struct {
	Endpoint       string
	TLS            *tls.Config // nil for plaintext
	User, Password string      // empty without authentication
}

func (s *Server) config() clientv3.Config {
	return clientv3.Config{
		Endpoints: []string{s.Endpoint}, TLS: s.TLS, Username: s.User, Password: s.Password, DialTimeout: dialTimeout,
		Logger: zap.NewNop(), // errors are returned
	}
}

// Snapshot is a snapshot of a server, whose leases go on there. It implements [backend.Source] and
// [transfer.LeaseTimes].
type Snapshot struct {
	*etcdfile.File

	server *Server
}

// Remaining implements [transfer.LeaseTimes].
func (s *Snapshot) Remaining(ctx context.Context) (map[int64]time.Duration, error) {
	client, err := s.server.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ids := make([]int64, 0, len(s.Contents().Leases))
	for _, l := range s.Contents().Leases {
		ids = append(ids, l.ID)
	}
	return remainingOf(ctx, client, ids)
}

// Open saves a snapshot of the server in the file at path, unless there is one already, and opens it. With the file of
// an interrupted import, the import can continue. Errors: [backend.ErrSource], [backend.ErrDamagedSource].
func Open(ctx context.Context, s *Server, path string) (*Snapshot, error) {
	// A download waits for a server for as long as it takes; this does not.
	id, err := s.clusterID(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), s.config(), path); err != nil {
			return nil, fmt.Errorf("%w: save a snapshot of %s: %w; it needs the role root if authentication is enabled",
				backend.ErrSource, s.Endpoint, err)
		}
	}
	f, err := etcdfile.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("the snapshot of %s: %w", s.Endpoint, err)
	}
	f.Contents().ClusterID = id
	return &Snapshot{f, s}, nil
}

// clusterID asks for the id of the server's cluster, which is not part of a snapshot.
func (s *Server) clusterID(ctx context.Context) (uint64, error) {
	client, err := s.connect()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	status, err := client.Status(ctx, s.Endpoint)
	if refused := (rpctypes.EtcdError{}); errors.As(err, &refused) {
		return 0, fmt.Errorf("%w: %s refuses the import: %w; if authentication is enabled, it needs a user with the "+
			"role root", backend.ErrSource, s.Endpoint, err)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s does not answer: %w; check that it is running, and the certificates",
			backend.ErrSource, s.Endpoint, err)
	}
	return status.Header.ClusterId, nil
}

func (s *Server) connect() (*clientv3.Client, error) {
	client, err := clientv3.New(s.config())
	if err != nil {
		return nil, fmt.Errorf("%w: connect to %s: %w", backend.ErrSource, s.Endpoint, err)
	}
	return client, nil
}
