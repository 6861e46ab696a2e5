package etcdshim

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/store"
)

// A caller can be found again by its address: who takes nothing of its answers is hung up on.
func TestCallerAddress(t *testing.T) {
	callers := make(chan any, 1)
	s := serve(t, Options{UnaryInterceptors: []grpc.UnaryServerInterceptor{
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			callers <- Caller(ctx)
			return handle(ctx, req)
		},
	}}, store.Config{})
	var first any
	for range 2 {
		if _, err := s.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		caller := <-callers
		if first == nil {
			first = caller
		}
		if caller != first {
			t.Errorf("calls of one connection are of %v and %v", first, caller)
		}
	}
	if addr := CallerAddress(first); addr == nil || addr.Network() != "tcp" {
		t.Errorf("the address of %v is %v", first, addr)
	}
	if addr := CallerAddress(nil); addr != nil {
		t.Errorf("the address of nobody is %v", addr)
	}
}
