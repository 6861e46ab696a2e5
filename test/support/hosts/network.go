package hosts

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// Network is a network of hosts.
type Network struct {
	engine *images.Engine
	name   string
	last   atomic.Pointer[netip.Addr] // the last assigned address
}

// NewNetwork makes a network, which is removed when the test ends. An internal one publishes no ports.
func NewNetwork(tb testing.TB, e *images.Engine, internal bool) *Network {
	tb.Helper()
	n := &Network{engine: e, name: UniqueName()}
	if err := guard.Network(n.name); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), stepTimeout)
	defer cancel()
	var err error
	for range 20 {
		subnet := randomSubnet()
		first := subnet.Addr().Next() // of the gateway
		n.last.Store(&first)
		if _, err = e.Client.NetworkCreate(ctx, n.name, client.NetworkCreateOptions{
			Driver: "bridge", Internal: internal,
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}},
		}); err == nil {
			break // otherwise the subnet is taken
		}
	}
	if err != nil {
		tb.Fatalf("create a network: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		if _, err := e.Client.NetworkRemove(ctx, n.name, client.NetworkRemoveOptions{}); err != nil {
			tb.Errorf("remove network %s: %v", n.name, err)
		}
	})
	return n
}

// UniqueName returns a unique name for an object of a container engine.
func UniqueName() string { return "sqlstore-test-" + strings.ToLower(crand.Text()[:12]) }

// randomSubnet chooses a subnet of 4,096 addresses. A host gets its address back after it was cut off or down only if
// the test, not the engine, assigns addresses.
func randomSubnet() netip.Prefix {
	n := rand.IntN(1 << 10)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(192 + n>>4), byte(n << 4), 0}), 20)
}

// address returns an address that no host has had.
func (n *Network) address() netip.Addr {
	for {
		last := n.last.Load()
		if next := last.Next(); n.last.CompareAndSwap(last, &next) {
			return next
		}
	}
}

func (n *Network) connect(ctx context.Context, h *Host) error {
	s := &network.EndpointSettings{Aliases: []string{h.Name}, IPAMConfig: &network.EndpointIPAMConfig{
		IPv4Address: h.Addr,
	}}
	_, err := n.engine.Client.NetworkConnect(ctx, n.name, client.NetworkConnectOptions{
		Container: h.id, EndpointConfig: s,
	})
	if err != nil {
		return fmt.Errorf("connect %s to its network: %w", h.Name, err)
	}
	return nil
}

func (n *Network) disconnect(ctx context.Context, h *Host) error {
	_, err := n.engine.Client.NetworkDisconnect(ctx, n.name, client.NetworkDisconnectOptions{
		Container: h.id, Force: true,
	})
	if err != nil {
		return fmt.Errorf("disconnect %s from its network: %w", h.Name, err)
	}
	return nil
}
