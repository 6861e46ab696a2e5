package etcdshim

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// serving counts the calls in progress.
type serving struct{ calls atomic.Int64 }

func (s *serving) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return handle(ctx, req)
}

func (s *serving) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return handle(srv, stream)
}
