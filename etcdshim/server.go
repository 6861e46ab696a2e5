package etcdshim

import (
	"context"
	"fmt"
	"math"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/sqlstore/sqlstore/store"
)

// Server is the etcd API over one store.
type Server struct {
	// GRPC serves all services. Its messages of the KV and Watch services are not protobuf types, see Options.
	GRPC *grpc.Server
	// Gateway serves the JSON API under /v3/.
	Gateway http.Handler
	// Health is what grpc.health.v1 tells; it starts as SERVING.
	Health *health.Server
}

// NewServer makes the services over s. They do not own s: stop GRPC first, then close the store.
func NewServer(ctx context.Context, s *store.Store, o Options) (*Server, error) {
	o = o.withDefaults()
	st, err := s.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	id := newIdentity(st.ClusterID, st.MemberID, uint64(st.Incarnation))
	out := &Server{GRPC: grpc.NewServer(o.serverOptions()...), Health: health.NewServer()}
	healthpb.RegisterHealthServer(out.GRPC, out.Health)
	out.GRPC.RegisterService(&kvService, &kv{engine: s, id: id, maxBytes: o.MaxRequestBytes, maxOps: o.MaxTxnOps})
	out.GRPC.RegisterService(&watchService, &watch{engine: s, id: id, maxBytes: o.MaxRequestBytes + messageOverhead})
	pb.RegisterLeaseServer(out.GRPC, &lease{engine: s, id: id})
	return out, nil
}

func (o *Options) serverOptions() []grpc.ServerOption {
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxRequestBytes + messageOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(o.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.KeepaliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.KeepaliveInterval, Timeout: o.KeepaliveTimeout}),
		grpc.ChainUnaryInterceptor(o.UnaryInterceptors...),
		grpc.ChainStreamInterceptor(o.StreamInterceptors...),
	}
	return append(opts, o.ServerOptions...)
}
