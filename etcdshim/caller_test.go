package etcdshim

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sqlstore/sqlstore/internal/store"
)

// reportCallers returns server options that send the caller of each call to a channel.
func reportCallers() (Options, <-chan any) {
	callers := make(chan any, 1)
	return Options{UnaryInterceptors: []grpc.UnaryServerInterceptor{
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			callers <- Caller(ctx)
			return handle(ctx, req)
		},
	}}, callers
}

// A caller's address identifies its connection: the server closes that of a client that does not read its answers.
func TestCallerAddress(t *testing.T) {
	o, callers := reportCallers()
	s := serve(t, o, store.Config{})
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
		t.Errorf("the address of no caller is %v", addr)
	}
}

// Callers of the gateway are its clients, whatever address they claim.
func TestCallersOfTheGateway(t *testing.T) {
	o, callers := reportCallers()
	s := serve(t, o, store.Config{})
	for _, address := range []string{"192.0.2.1:5", "192.0.2.2:5"} {
		body := strings.NewReader(`{"key":"YQ=="}`)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/kv/range", body)
		r.RemoteAddr = address
		r.Header.Set("Grpc-Metadata-"+gatewayClient, "192.0.2.3:5")
		s.Gateway.ServeHTTP(httptest.NewRecorder(), r)
		if caller := <-callers; caller != webAddress(address) {
			t.Errorf("%s calls as %v", address, caller)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), gatewayClient, "192.0.2.3:5")
	if _, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	if caller := <-callers; caller == webAddress("192.0.2.3:5") {
		t.Errorf("a client of gRPC calls as %v", caller)
	}
}
