package etcdshim

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
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

	codec   *codec
	serving serving
	conn    *grpc.ClientConn // of the gateway
	stop    context.CancelFunc
}

// NewServer makes the services over s. They do not own s: call Shutdown first, then close the store.
func NewServer(ctx context.Context, s *store.Store, o Options) (*Server, error) {
	o = o.withDefaults()
	if o.NoLeader == nil {
		o.NoLeader = s.NoLeader
	}
	settings := s.Settings()
	id := newIdentities(settings.ClusterID, settings.MemberID, s.Incarnation)
	most := limits{ops: o.MaxTxnOps, key: o.MaxKeyBytes}
	c := newCodec()
	out := &Server{Health: health.NewServer(), codec: c}
	out.GRPC = grpc.NewServer(o.serverOptions(c, &out.serving)...)
	stopping, stop := context.WithCancel(context.Background())
	out.stop = stop
	g := out.GRPC
	healthpb.RegisterHealthServer(g, out.Health)
	g.RegisterService(&kvService, &kv{engine: s, id: id, maxBytes: o.MaxRequestBytes, most: most})
	g.RegisterService(&watchService, &watch{engine: s, id: id, maxBytes: o.MaxRequestBytes + messageOverhead, stopping: stopping})
	pb.RegisterLeaseServer(g, &lease{engine: s, id: id, stopping: stopping})
	pb.RegisterMaintenanceServer(g, &maintenance{
		engine: s, id: id, log: o.Logger, version: o.Version, tempDir: o.TempDir, noLeader: o.NoLeader, snapshots: make(chan struct{}, 1),
	})
	pb.RegisterClusterServer(g, newCluster(id, &o, s))
	pb.RegisterAuthServer(g, &auth{engine: s, id: id})
	v3lockpb.RegisterLockServer(g, &locks{engine: s, id: id, most: most})
	v3electionpb.RegisterElectionServer(g, &elections{engine: s, id: id, most: most})
	var err error
	if out.Gateway, out.conn, err = newGateway(context.WithoutCancel(ctx), g, o.Logger); err != nil {
		stop()
		g.Stop()
		return nil, fmt.Errorf("new server: %w", err)
	}
	return out, nil
}

// Traffic returns the bytes of all messages received and sent so far, those of the gateway included.
func (s *Server) Traffic() (received, sent uint64) {
	return s.codec.received.Load(), s.codec.sent.Load()
}

// Serving returns how many calls are being served, those of the gateway included.
func (s *Server) Serving() int { return int(s.serving.calls.Load()) }

// Shutdown tells clients to go elsewhere, ends the streams that would last for ever (watches, keep-alives), and lets calls in
// flight finish until ctx ends; then it cuts them off. Clients that have connected and not greeted are waited for, too: who owns
// the connections had better close them.
func (s *Server) Shutdown(ctx context.Context) {
	s.Health.Shutdown()
	s.stop()
	cut := context.AfterFunc(ctx, s.GRPC.Stop)
	s.GRPC.GracefulStop()
	cut()
	_ = s.conn.Close() // its only error is that it is closed
}

// streamWorkers is how many calls find a goroutine ready for them, with a stack that has grown already; that saves 3 to 5 us of
// a call's 22 to 50. A stream that lasts, like a watch, keeps one, hence so many; when all are taken, calls get new goroutines.
const streamWorkers = 512

// connectionTimeout is how long a client may take to greet; grpc's default of two minutes is also how long a stop would wait.
const connectionTimeout = 20 * time.Second

func (o *Options) serverOptions(c *codec, calls *serving) []grpc.ServerOption {
	leader := &leadership{o.NoLeader}
	unary := append([]grpc.UnaryServerInterceptor{calls.unary}, o.UnaryInterceptors...)
	streams := append([]grpc.StreamServerInterceptor{calls.stream}, o.StreamInterceptors...)
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(c),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxRecvMsgSize(o.MaxRequestBytes + messageOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(o.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.KeepaliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.KeepaliveInterval, Timeout: o.KeepaliveTimeout}),
		grpc.ChainUnaryInterceptor(append(unary, leader.unary)...),
		grpc.ChainStreamInterceptor(append(streams, leader.stream)...),
	}
	if !o.NoWorkers {
		opts = append(opts, grpc.NumStreamWorkers(streamWorkers))
	}
	return append(opts, o.ServerOptions...)
}
