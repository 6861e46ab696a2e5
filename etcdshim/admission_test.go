package etcdshim

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The server does not start a call whose client has gone, and does not send a late reply.
func TestUnwantedCalls(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	admit := &admission{&leadership{always}, &callers{}}
	info := &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Put"}
	called := 0
	handle := func(context.Context, any) (any, error) {
		called++
		leave()
		return "reply", nil
	}
	for range 2 {
		if resp, err := admit.unary(ctx, nil, info, handle); resp != nil || status.Code(err) != codes.Canceled {
			t.Errorf("got %v, %v", resp, err)
		}
	}
	if called != 1 {
		t.Errorf("called %d times", called)
	}
	if resp, err := admit.unary(t.Context(), nil, info, handle); resp != "reply" || err != nil {
		t.Errorf("got %v, %v", resp, err)
	}
}
