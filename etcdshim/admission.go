package etcdshim

import (
	"context"

	"google.golang.org/grpc"
)

// admission decides about a call before it begins. It is one interceptor, because grpc allocates for each.
type admission struct {
	leader  *leadership
	callers *callers
}

func (a *admission) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	ctx, cancel, err := a.leader.within(ctx, info.FullMethod, req)
	if err != nil {
		return nil, err
	}
	if cancel != nil {
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, statusError(ctx, err)
	}
	called := ctx
	if !open(info.FullMethod) {
		if called, err = a.callers.identify(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := handle(called, req)
	if err != nil {
		return resp, err
	}
	return wanted(ctx, resp)
}

// wanted drops a reply that nobody waits for, before it is encoded: a client may reset calls faster than they can
// begin, and all of them compete for the processors with everybody else's.
func wanted(ctx context.Context, resp any) (any, error) {
	err := ctx.Err()
	if err == nil {
		return resp, nil
	}
	if r, ok := resp.(encoded); ok {
		r.data.Free()
	}
	return nil, statusError(ctx, err)
}

// wantedStream is the same for a stream, whose messages reveal when it has ended.
func wantedStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := stream.Context().Err(); err != nil {
		return statusError(stream.Context(), err)
	}
	return handle(srv, stream)
}
