package sidebyside

import (
	"context"
	"fmt"
	"math"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// side is one of the two servers, or all of its replicas: a connection and etcd's services on it.
type side struct {
	name    string
	kv      pb.KVClient
	lease   pb.LeaseClient
	watch   pb.WatchClient
	maint   pb.MaintenanceClient
	cluster pb.ClusterClient
	auth    pb.AuthClient
	lock    v3lockpb.LockClient
	elect   v3electionpb.ElectionClient
	badge   *badge

	rotation *rotation // nil without one
	all      []*side   // of several replicas: each alone
}

// dialAll connects to the replicas of a server. Requests go to them in turn; a stream stays where it was opened.
func dialAll(tb testing.TB, name string, replicas []*launch.Server) *side {
	tb.Helper()
	if len(replicas) == 1 {
		return dial(tb, name, replicas[0].Endpoint())
	}
	var conns spread
	var all []*side
	for i, r := range replicas {
		conn := connect(tb, name, r.Endpoint())
		conns.all = append(conns.all, conn)
		all = append(all, newSide(fmt.Sprintf("%s %d", name, i+1), conn))
	}
	s := newSide(name, &conns)
	s.all = all
	return s
}

// leader returns the connection to the leader, and its member id: only the leader can answer some requests.
func (s *side) leader(ctx context.Context) (*side, uint64, error) {
	each := s.all
	if len(each) == 0 {
		each = []*side{s}
	}
	for {
		for _, r := range each {
			status, err := r.maint.Status(ctx, &pb.StatusRequest{})
			if err != nil {
				return nil, 0, err
			}
			if self := status.Header.MemberId; status.Leader == self {
				return r, self, nil
			}
		}
		if err := ctx.Err(); err != nil { // the leader may have changed in between
			return nil, 0, fmt.Errorf("find the leader: %w", err)
		}
	}
}

// dial connects to a server; the connection closes at the end of the test.
func dial(tb testing.TB, name, endpoint string, opts ...grpc.DialOption) *side {
	tb.Helper()
	return newSide(name, connect(tb, name, endpoint, opts...))
}

func connect(tb testing.TB, name, endpoint string, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	opts = append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	conn, err := grpc.NewClient("passthrough:///"+endpoint, opts...)
	if err != nil {
		tb.Fatalf("dial %s: %v", name, err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

func newSide(name string, conn grpc.ClientConnInterface) *side {
	return &side{
		name:    name,
		kv:      pb.NewKVClient(conn),
		lease:   pb.NewLeaseClient(conn),
		watch:   pb.NewWatchClient(conn),
		maint:   pb.NewMaintenanceClient(conn),
		cluster: pb.NewClusterClient(conn),
		auth:    pb.NewAuthClient(conn),
		lock:    v3lockpb.NewLockClient(conn),
		elect:   v3electionpb.NewElectionClient(conn),
		badge:   &badge{},
	}
}
