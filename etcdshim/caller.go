package etcdshim

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"
)

// Caller identifies the client of a call by its connection, including the gateway's clients, as [store.Config]
// requires. All others count as one.
func Caller(ctx context.Context) any {
	if address := ofGateway(ctx, gatewayClient); address != "" {
		return webAddress(address)
	}
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr // the same for all calls of a connection; over HTTP, each call has its own peer
	}
	return nil
}

// CallerAddress returns the address of a client identified by Caller, or nil if it has none.
func CallerAddress(caller any) net.Addr {
	address, _ := caller.(net.Addr)
	return address
}

// addressOf returns the address of a call's client, "" if it has none.
func addressOf(ctx context.Context) string {
	if a := CallerAddress(Caller(ctx)); a != nil {
		return a.String()
	}
	return ""
}
