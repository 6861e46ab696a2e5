package etcdshim

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/store"
)

// Server is the etcd API over one store.
type Server struct {
	// GRPC serves all services. Its KV and Watch messages are not protobuf types, see Options.
	GRPC *grpc.Server
	// HTTP serves the same calls for clients that reach an HTTP server. They end with the Shutdown of that server, not
	// with that of Server.
	HTTP http.Handler
	// Gateway serves the JSON API under /v3/.
	Gateway http.Handler
	// Health answers grpc.health.v1; it starts as SERVING.
	Health *health.Server

	codec   *codec
	serving serving // other calls than the gateway's
	inside  serving // the gateway's
	working serving // the gateway's, except while their clients have to read
	web     *web
	// inner serves the gateway, whose connection all its clients share: the limit of streams counts for each of theirs.
	inner *grpc.Server
	conn  *grpc.ClientConn // of the gateway to inner
	stop  context.CancelFunc
}

// NewServer creates the services over s. They do not own s: call Shutdown and Close, then close the store.
func NewServer(ctx context.Context, s *store.Store, o Options) (*Server, error) {
	o = o.withDefaults()
	if o.NoLeader == nil {
		o.NoLeader = s.NoLeader
	}
	if o.Authenticator == nil {
		o.Authenticator = authn.New(s, authn.Options{Logger: o.Logger})
	}
	c := newCodec()
	out := &Server{Health: health.NewServer(), codec: c}
	options := o.serverOptions(c)
	out.inner = grpc.NewServer(append(append(out.inside.options(), options...),
		grpc.MaxConcurrentStreams(math.MaxUint32))...)
	options = append(out.serving.options(), options...)
	out.web = newWeb(o.MaxRequestBytes+messageOverhead, options)
	if !o.NoWorkers {
		options = append(options, grpc.NumStreamWorkers(streamWorkers))
	}
	out.GRPC, out.HTTP = grpc.NewServer(options...), out.web
	stopping, stop := context.WithCancel(context.Background())
	out.stop = stop
	awaited := &answers{}
	register := services(stopping, s, awaited, &o, &healthService{out.Health, stopping})
	register(out.GRPC)
	register(out.web.server)
	register(out.inner)
	var err error
	out.Gateway, out.conn, err = newGateway(context.WithoutCancel(ctx), out.inner, s, awaited, &out.working, &o)
	if err != nil {
		stop()
		out.stopAll()
		return nil, fmt.Errorf("new server: %w", err)
	}
	return out, nil
}

// services creates all services, to be registered with each gRPC server.
func services(
	stopping context.Context, s *store.Store, awaited *answers, o *Options, h healthpb.HealthServer,
) (register func(*grpc.Server)) {
	settings := s.Settings()
	id := newIdentities(settings.ClusterID, settings.MemberID, s.Epoch)
	keys := &kv{
		engine: s, id: id, maxBytes: o.MaxRequestBytes, most: o.MaxTxnOps, streamTimeout: o.streamTimeout,
		awaited: awaited,
	}
	who, log := o.callers(), auditor{o.Audit}
	watches := &watch{
		engine: s, id: id, maxBytes: o.MaxRequestBytes + messageOverhead, stopping: stopping, sent: o.WatchSent,
		callers: who, audit: log,
	}
	leases := &lease{engine: s, id: id, stopping: stopping, callers: who, audit: log}
	maintain := &maintenance{
		engine: s, id: id, version: o.Version, noLeader: o.NoLeader,
		snapshots: newSnapshots(), snapshotting: newRuns(o.Logger), defragmenting: newRuns(o.Logger),
	}
	members, users := newCluster(id, o, s), &authentication{engine: s, id: id, authn: o.Authenticator}
	waiting := queues{engine: s, maxBytes: o.MaxRequestBytes, stopping: stopping}
	lock, election := &locks{queues: waiting, id: id}, &elections{queues: waiting, id: id, most: o.MaxTxnOps}
	return func(g *grpc.Server) {
		healthpb.RegisterHealthServer(g, h)
		g.RegisterService(&kvService, keys)
		g.RegisterService(&watchService, watches)
		pb.RegisterLeaseServer(g, leases)
		pb.RegisterMaintenanceServer(g, maintain)
		pb.RegisterClusterServer(g, members)
		pb.RegisterAuthServer(g, users)
		v3lockpb.RegisterLockServer(g, lock)
		v3electionpb.RegisterElectionServer(g, election)
	}
}

// Traffic returns the bytes of all messages received and sent so far, including the gateway's.
func (s *Server) Traffic() (received, sent uint64) {
	return s.codec.received.Load(), s.codec.sent.Load()
}

// Serving returns the number of calls in progress, including the gateway's.
func (s *Server) Serving() int { return int(s.serving.calls.Load() + s.inside.calls.Load()) }

// Working returns the number of calls in progress, except the gateway's while they wait for their client.
func (s *Server) Working() int { return int(s.serving.calls.Load() + s.working.calls.Load()) }

// Shutdown makes clients reconnect elsewhere, ends endless streams (watches, keep-alives), and lets calls in flight
// finish until ctx ends; then it cuts them off. It also waits for clients that have connected but not completed the
// handshake, so the owner of the connections should close them. Calls over HTTP end with the Shutdown of their HTTP
// server, which should begin at the same time.
func (s *Server) Shutdown(ctx context.Context) {
	s.Health.Shutdown()
	s.stop()
	cut := context.AfterFunc(ctx, s.stopAll)
	var graceful sync.WaitGroup
	graceful.Go(s.GRPC.GracefulStop)
	graceful.Go(s.inner.GracefulStop)
	graceful.Wait()
	cut()
}

func (s *Server) stopAll() {
	for _, g := range []*grpc.Server{s.GRPC, s.inner, s.web.server} {
		g.Stop()
	}
}

// Close cuts off the remaining calls. Call it after Shutdown and after that of the HTTP server, if there is one.
func (s *Server) Close() {
	s.stopAll()
	_ = s.conn.Close() // its only error is that it is already closed
}

// streamWorkers is how many goroutines with a grown stack are kept ready for calls. Without one a call costs 3 to 5 us
// more. A long stream keeps one, and a kube-apiserver has a watch for each resource. More than that does harm: calls go
// to the idle ones in turn, so each call finds a stack that is in no processor's cache, or that a collection of garbage
// has shrunk. 64, 128 and 256 of them, beside one watch, cost 0.95, 0.96 and 0.99 of the CPU of 512.
const streamWorkers = 192

// connectionTimeout is how long a client may take for the handshake. With grpc's default of two minutes a stop would
// wait that long.
const connectionTimeout = 20 * time.Second

func (o *Options) callers() *callers {
	return &callers{authn: o.Authenticator, certificates: o.ClientCertAuth}
}

func (o *Options) serverOptions(c *codec) []grpc.ServerOption {
	admit := &admission{&leadership{o.NoLeader}, o.callers()}
	var unary []grpc.UnaryServerInterceptor
	var streams []grpc.StreamServerInterceptor
	if o.WarningDuration > 0 {
		unary = append(unary, newSlowCalls(o).unary)
	}
	if o.Tracer != nil {
		t := traced{o.Tracer}
		unary, streams = append(unary, t.unary), append(streams, t.stream)
	}
	unary, streams = append(unary, o.UnaryInterceptors...), append(streams, o.StreamInterceptors...)
	if o.Audit != nil {
		log := auditor{o.Audit}
		unary, streams = append(unary, log.unary), append(streams, log.stream)
	}
	return append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(c),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.MaxRecvMsgSize(o.MaxRequestBytes + messageOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(o.MaxConcurrentStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.KeepaliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.KeepaliveInterval, Timeout: o.KeepaliveTimeout}),
		grpc.ChainUnaryInterceptor(append(unary, admit.unary)...),
		grpc.ChainStreamInterceptor(append(streams, admit.leader.stream, wantedStream, admit.callers.stream)...),
	}, o.ServerOptions...)
}
