package etcdshim

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/tmc/grpc-websocket-proxy/wsproxy"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
)

// gatewayBuffer is how many bytes wait between the gateway and the server, in each direction.
const gatewayBuffer = 64 << 10

// newGateway is the JSON API on top of a gRPC server in the same process. As in etcd its streams are served over websockets, too.
// The returned connection is to be closed.
func newGateway(ctx context.Context, server *grpc.Server, log *slog.Logger) (http.Handler, *grpc.ClientConn, error) {
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
	}), runtime.WithErrorHandler(handleError), runtime.WithStreamErrorHandler(func(_ context.Context, err error) *status.Status {
		return status.Convert(deadlineError(err))
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
	post := func(_, outgoing *http.Request) *http.Request {
		outgoing.Method = http.MethodPost
		return outgoing
	}
	return wsproxy.WebsocketProxy(mux, wsproxy.WithRequestMutator(post),
		wsproxy.WithMaxRespBodyBufferSize(math.MaxInt32), wsproxy.WithLogger(proxyLog{log})), conn, nil
}

func handleError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, deadlineError(err))
}

// deadlineError tells of a deadline as etcd's gateway does. Which side notices it first is chance; grpc has another text when
// it is the server.
func deadlineError(err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	return err
}

// proxyLog is a logger as the websocket proxy wants it. What goes wrong there is the clients' doing.
type proxyLog struct{ *slog.Logger }

func (l proxyLog) Warnln(args ...any)  { l.Debug(fmt.Sprint(args...)) }
func (l proxyLog) Debugln(args ...any) { l.Debug(fmt.Sprint(args...)) }
