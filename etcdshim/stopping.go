package etcdshim

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// untilStop returns a context that also ends when the server stops, with etcd's error as the cause.
func untilStop(ctx, stopping context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(stopping, func() { cancel(rpctypes.ErrGRPCStopped) })
	return ctx, func(cause error) {
		forget()
		cancel(cause)
	}
}

// healthService ends the streams of grpc.health.v1, too, when the server stops.
type healthService struct {
	*health.Server
	stopping context.Context
}

// Watch implements [healthpb.HealthServer].
func (s *healthService) Watch(r *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := untilStop(stream.Context(), s.stopping)
	defer cancel(nil)
	err := s.Server.Watch(r, &healthStream{stream, ctx})
	if s.stopping.Err() != nil {
		return rpctypes.ErrGRPCStopped
	}
	return err
}

type healthStream struct {
	healthpb.Health_WatchServer
	ctx context.Context
}

// Context implements [healthpb.Health_WatchServer].
func (s *healthStream) Context() context.Context { return s.ctx }
