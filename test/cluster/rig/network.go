package rig

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/sqlstore/sqlstore/test/images"
	"github.com/sqlstore/sqlstore/test/pgserver/guard"
)

// stepTimeout bounds what is done to a host or a network.
const stepTimeout = time.Minute

// Network is a network of containers.
type Network struct {
	engine *images.Engine
	name   string
}

// newNetwork makes a network that is removed when the test ends. An internal one publishes nothing.
func newNetwork(tb testing.TB, e *images.Engine, internal bool) *Network {
	tb.Helper()
	n := &Network{engine: e, name: uniqueName()}
	if err := guard.Network(n.name); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), stepTimeout)
	defer cancel()
	var err error
	for range 20 {
		var ipam *network.IPAM
		if ipam, err = randomSubnet(); err != nil {
			break
		}
		if _, err = e.Client.NetworkCreate(ctx, n.name, client.NetworkCreateOptions{Driver: "bridge", Internal: internal, IPAM: ipam}); err == nil {
			break // else the subnet is somebody's
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

// randomSubnet chooses addresses. Only where they are chosen can a host that was cut off come back under its own.
func randomSubnet() (*network.IPAM, error) {
	i, err := rand.Int(rand.Reader, big.NewInt(1<<14))
	if err != nil {
		return nil, err
	}
	n := i.Int64()
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(192 + n>>8), byte(n), 0}), 24)
	return &network.IPAM{Config: []network.IPAMConfig{{Subnet: prefix}}}, nil
}

func uniqueName() string { return "sqlstore-test-" + strings.ToLower(rand.Text()[:12]) }

// connect connects a host, under an address if it had one.
func (n *Network) connect(ctx context.Context, h *Host, addr netip.Addr) error {
	s := &network.EndpointSettings{Aliases: []string{h.Alias}}
	if addr.IsValid() {
		s.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: addr}
	}
	_, err := n.engine.Client.NetworkConnect(ctx, n.name, client.NetworkConnectOptions{Container: h.name, EndpointConfig: s})
	if err != nil {
		return fmt.Errorf("connect %s to its network: %w", h.Alias, err)
	}
	return nil
}

// disconnect cuts a host off: its packets and those to it are lost, and connections on both sides are not told.
func (n *Network) disconnect(ctx context.Context, h *Host) error {
	_, err := n.engine.Client.NetworkDisconnect(ctx, n.name, client.NetworkDisconnectOptions{Container: h.name, Force: true})
	if err != nil {
		return fmt.Errorf("disconnect %s from its network: %w", h.Alias, err)
	}
	return nil
}
