// Package hosts runs containers as the hosts of a test, and breaks them. On a network they find each other by name.
// Their ports do not change with restarts. They are removed when the test ends, or by package guard when the test
// process dies. For tests only.
package hosts

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// stepTimeout limits operations on a host or a network.
const stepTimeout = time.Minute

// Spec configures a host.
type Spec struct {
	// Name is the host's name on its network.
	Name string
	// Request has the image, and what to run in it. Start adds names, networks and ports.
	Request testcontainers.ContainerRequest
	// Ports are the ports that the test uses, for example "5432/tcp".
	Ports []string
	// Public is nil, or a second network. It publishes the ports and connects the host to others, as Aside(Name),
	// even while the host is cut off from its own network.
	Public *Network
}

// Host is a container. Its methods may be called from any goroutine, but not concurrently.
type Host struct {
	// Name is its name on its network.
	Name string
	// Addr is its address there, which never changes.
	Addr netip.Addr

	engine    *images.Engine
	network   *Network
	container testcontainers.Container
	id        string            // its name with the engine
	ports     map[string]string // "5432/tcp" -> HOST:PORT
}

// Aside is a host's name on its public network.
func Aside(name string) string { return name + "-aside" }

// Start starts a host. The end of the test removes it, after showing the end of its log if the test failed.
func (n *Network) Start(tb testing.TB, s Spec) *Host {
	tb.Helper()
	h := &Host{
		Name: s.Name, Addr: n.address(), engine: n.engine, network: n, id: UniqueName(), ports: map[string]string{},
	}
	bindings, err := h.publish(s.Ports)
	if err != nil {
		tb.Fatal(err)
	}
	if err := guard.Container(h.id); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { h.remove(tb) })
	if err := h.Step("create", func(ctx context.Context) (err error) {
		h.container, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
			ContainerRequest: h.request(s, bindings), Logger: tclog.NewNoopLogger(),
		})
		if err == nil && s.Public != nil {
			err = n.connect(ctx, h)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	if err := h.Start(); err != nil {
		tb.Fatal(err)
	}
	return h
}

// request completes the request of a host.
func (h *Host) request(s Spec, bindings network.PortMap) testcontainers.ContainerRequest {
	req := s.Request
	config, hostConfig := req.ConfigModifier, req.HostConfigModifier
	first, alias := h.network, s.Name
	if s.Public != nil {
		first, alias = s.Public, Aside(s.Name)
	}
	req.Name, req.ExposedPorts = h.id, s.Ports
	req.Networks, req.NetworkAliases = []string{first.name}, map[string][]string{first.name: {alias}}
	if s.Public == nil {
		req.EndpointSettingsModifier = func(settings map[string]*network.EndpointSettings) {
			if e := settings[first.name]; e != nil {
				e.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: h.Addr}
			}
		}
	}
	req.ConfigModifier = func(c *dockercontainer.Config) {
		if s.Public == nil { // the engine makes a hostname an alias on every network, the public one included
			c.Hostname = s.Name
		}
		if config != nil {
			config(c)
		}
	}
	req.HostConfigModifier = func(c *dockercontainer.HostConfig) {
		c.PortBindings = bindings
		if hostConfig != nil {
			hostConfig(c)
		}
	}
	return req
}

// publish chooses ports that do not change with restarts, unlike those that the engine would choose.
func (h *Host) publish(ports []string) (network.PortMap, error) {
	ip, err := netip.ParseAddr(h.engine.Bind)
	if err != nil {
		return nil, err
	}
	bindings := network.PortMap{}
	for _, p := range ports {
		addr, err := launch.FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		h.ports[p] = net.JoinHostPort(h.engine.Host, port)
		bindings[network.MustParsePort(p)] = []network.PortBinding{{HostIP: ip, HostPort: port}}
	}
	return bindings, nil
}

func (h *Host) remove(tb testing.TB) {
	if tb.Failed() {
		tb.Logf("end of the log of %s:\n%s", h.Name, h.Log("80"))
	}
	if err := h.Step("remove", func(ctx context.Context) error {
		return guard.RemoveContainer(ctx, h.engine.Client.Client, h.id)
	}); err != nil {
		tb.Error(err)
	}
}

// Step performs an operation on the host with a timeout of a minute. Its error names the operation and the host.
func (h *Host) Step(what string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", what, h.Name, err)
	}
	return nil
}

// ID returns the container engine's ID of the host.
func (h *Host) ID() string { return h.id }

// Address returns the HOST:PORT at which the test reaches a port of Spec.Ports.
func (h *Host) Address(port string) string { return h.ports[port] }
