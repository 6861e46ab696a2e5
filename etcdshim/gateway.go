package etcdshim

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
)

// gatewayBuffer is how many bytes wait between the gateway and the server, in each direction.
const gatewayBuffer = 64 << 10

// newGateway is the JSON API on top of a gRPC server in the same process. The returned connection is to be closed.
func newGateway(ctx context.Context, server *grpc.Server) (http.Handler, *grpc.ClientConn, error) {
	listener := bufconn.Listen(gatewayBuffer)
	conn, err := grpc.NewClient("passthrough:///in-process",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("gateway: %w", err)
	}
	mux := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.HTTPBodyMarshaler{
		Marshaler: &runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		},
	}))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		etcdgw.RegisterKVHandler, etcdgw.RegisterWatchHandler, etcdgw.RegisterLeaseHandler, etcdgw.RegisterClusterHandler,
		etcdgw.RegisterMaintenanceHandler, etcdgw.RegisterAuthHandler, lockgw.RegisterLockHandler, electiongw.RegisterElectionHandler,
	} {
		if err := register(ctx, mux, conn); err != nil {
			_ = conn.Close() // the first error is the one to tell
			return nil, nil, fmt.Errorf("gateway: %w", err)
		}
	}
	go server.Serve(listener) //nolint:errcheck // ends with the server
	return mux, conn, nil
}
