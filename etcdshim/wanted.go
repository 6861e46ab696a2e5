package etcdshim

import (
	"context"

	"google.golang.org/grpc"
)

// wanted skips work that nobody waits for: it does not begin a call whose context has ended, nor encode its reply. A
// client may reset calls faster than they can begin, and all of them compete for the processors with everybody else's.
func wanted(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, statusError(ctx, err)
	}
	resp, err := handle(ctx, req)
	if err == nil {
		if ended := ctx.Err(); ended != nil {
			if r, ok := resp.(encoded); ok {
				r.data.Free()
			}
			return nil, statusError(ctx, ended)
		}
	}
	return resp, err
}

// wantedStream is wanted for a stream, whose messages reveal when it has ended.
func wantedStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := stream.Context().Err(); err != nil {
		return statusError(stream.Context(), err)
	}
	return handle(srv, stream)
}
