// Package live copies from servers of the etcd API while they run: from etcd, and from sqlstore.
package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
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

// Save saves a snapshot of the server in the file at path. It replaces a file that is there. Errors:
// [backend.ErrSource].
func Save(ctx context.Context, s *Server, path string) error {
	// A download waits for a server for as long as it takes; this does not.
	if _, err := s.head(ctx); err != nil {
		return err
	}
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), s.config(), path); err != nil {
		return fmt.Errorf("%w: save a snapshot of %s: %w; it needs the role root if authentication is enabled",
			backend.ErrSource, s.Endpoint, err)
	}
	return nil
}

// Open opens a snapshot of the server that [Save] has saved, maybe long ago. Errors: [backend.ErrSource], also if the
// server's store is not that of the snapshot, [backend.ErrDamagedSource].
func Open(ctx context.Context, s *Server, path string) (*Snapshot, error) {
	now, err := s.head(ctx)
	if err != nil {
		return nil, err
	}
	f, err := etcdfile.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("the snapshot of %s: %w", s.Endpoint, err)
	}
	if saved := f.Contents().Revision; now.Revision < saved {
		err := fmt.Errorf("%w: %s is at revision %d, below the snapshot's %d: it is another store, or an older copy",
			backend.ErrSource, s.Endpoint, now.Revision, saved)
		return nil, errors.Join(err, f.Close())
	}
	f.Contents().ClusterID = now.ClusterId
	return &Snapshot{f, s}, nil
}

// head asks for the revision of the server, and for the id of its cluster, which is not part of a snapshot.
func (s *Server) head(ctx context.Context) (*etcdserverpb.ResponseHeader, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	status, err := client.Status(ctx, s.Endpoint)
	if refused := (rpctypes.EtcdError{}); errors.As(err, &refused) {
		return nil, fmt.Errorf("%w: %s refuses the import: %w; if authentication is enabled, it needs a user with the "+
			"role root", backend.ErrSource, s.Endpoint, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not answer: %w; check that it is running, and the certificates",
			backend.ErrSource, s.Endpoint, err)
	}
	return status.Header, nil
}

func (s *Server) connect() (*clientv3.Client, error) {
	client, err := clientv3.New(s.config())
	if err != nil {
		return nil, fmt.Errorf("%w: connect to %s: %w", backend.ErrSource, s.Endpoint, err)
	}
	return client, nil
}
