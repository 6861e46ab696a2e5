package etcdshim

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// serving counts the calls in progress, and logs the slow ones.
type serving struct {
	calls atomic.Int64
	slow  *slowCalls // nil if none are logged
}

func (s *serving) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	if s.slow != nil {
		return s.slow.unary(ctx, req, info, handle)
	}
	return handle(ctx, req)
}

func (s *serving) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return handle(srv, stream)
}
