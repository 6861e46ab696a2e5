package sidebyside

import (
	"math"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// side is one of the two servers: a connection and etcd's services on it.
type side struct {
	name    string
	kv      pb.KVClient
	lease   pb.LeaseClient
	watch   pb.WatchClient
	maint   pb.MaintenanceClient
	cluster pb.ClusterClient
	auth    pb.AuthClient
}

// dial connects to a server; the connection is closed with the test.
func dial(tb testing.TB, name, endpoint string, opts ...grpc.DialOption) *side {
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
	return &side{
		name:    name,
		kv:      pb.NewKVClient(conn),
		lease:   pb.NewLeaseClient(conn),
		watch:   pb.NewWatchClient(conn),
		maint:   pb.NewMaintenanceClient(conn),
		cluster: pb.NewClusterClient(conn),
		auth:    pb.NewAuthClient(conn),
	}
}
