package etcdshim

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// traced makes the span of each call, under gRPC's name for the method.
type traced struct{ tracer *tracing.Tracer }

func (t traced) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	ctx, span := t.begin(ctx, info.FullMethod)
	resp, err := handle(ctx, req)
	end(span, err)
	return resp, err
}

func (t traced) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	ctx, span := t.begin(stream.Context(), info.FullMethod)
	if span.On() {
		stream = &tracedStream{stream, ctx}
	}
	err := handle(srv, stream)
	end(span, err)
	return err
}

func (t traced) begin(ctx context.Context, method string) (context.Context, tracing.Span) {
	name := strings.TrimPrefix(method, "/")
	ctx, span := t.tracer.Serve(ctx, name, header)
	span.RPC(name)
	return ctx, span
}

// header returns the first value of a call's metadata under a name.
func header(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

func end(span tracing.Span, err error) {
	if !span.On() {
		return
	}
	span.Text("rpc.response.status_code", status.Code(err).String())
	span.Fail(err)
	span.End()
}

// tracedStream is a stream with a span in its context.
type tracedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *tracedStream) Context() context.Context { return s.ctx }
