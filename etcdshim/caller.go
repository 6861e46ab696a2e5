package etcdshim

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"
)

// Caller tells the clients of calls apart by their connections, as [store.Config] wants it, those of the gateway
// included. All others are one.
func Caller(ctx context.Context) any {
	if address := ofGateway(ctx, gatewayClient); address != "" {
		return webAddress(address)
	}
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr // the same for all calls of a connection; of HTTP, each call has a peer of its own
	}
	return nil
}

// CallerAddress is where the client is that Caller tells apart, nil for those that have no address.
func CallerAddress(caller any) net.Addr {
	address, _ := caller.(net.Addr)
	return address
}
