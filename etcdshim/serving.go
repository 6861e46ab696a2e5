package etcdshim

import (
	"context"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
)

// serving counts calls in progress.
type serving struct{ calls atomic.Int64 }

// options count the calls of a gRPC server.
func (s *serving) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}
}

func (s *serving) unary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return handle(ctx, req)
}

func (s *serving) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return handle(srv, stream)
}

// toClient is the answer of a call that counts, except while the client has to read.
type toClient struct {
	http.ResponseWriter
	of *serving
}

// Unwrap is for [http.ResponseController].
func (w *toClient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *toClient) Write(p []byte) (int, error) {
	w.of.calls.Add(-1)
	defer w.of.calls.Add(1)
	return w.ResponseWriter.Write(p)
}

// FlushError is for [http.ResponseController].
func (w *toClient) FlushError() error {
	w.of.calls.Add(-1)
	defer w.of.calls.Add(1)
	return http.NewResponseController(w.ResponseWriter).Flush()
}
