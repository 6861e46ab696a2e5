// Package machine runs containers as the hosts of a test: on one private network, where they find each other by name,
// with ports that do not change with restarts. They are removed when the test ends, or by package guard when its
// process dies.
package machine

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/test/support/images"
	"github.com/sqlstore/sqlstore/test/support/launch"
	"github.com/sqlstore/sqlstore/test/support/pgserver/guard"
)

// stepTimeout limits operations on a machine or a network.
const stepTimeout = time.Minute

// Network is a network of machines.
type Network struct {
	engine *images.Engine
	name   string
}

// NewNetwork makes a network that is removed when the test ends. Without a container engine the test fails.
func NewNetwork(tb testing.TB) *Network {
	tb.Helper()
	e, err := images.Find()
	if err != nil {
		tb.Fatalf("this test needs a container engine: start Docker, or see package images for where it is "+
			"looked for: %v", err)
	}
	n := &Network{engine: e, name: UniqueName()}
	if err := guard.Network(n.name); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), stepTimeout)
	defer cancel()
	if _, err := e.Client.NetworkCreate(ctx, n.name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
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
func UniqueName() string { return "sqlstore-test-" + strings.ToLower(rand.Text()[:12]) }

// Spec configures a machine.
type Spec struct {
	// Name is the machine's name on its network.
	Name string
	// Image is what it runs, with the arguments Args and the environment Env.
	Image string
	Args  []string
	Env   map[string]string
	// Ports are the ports that the test uses, for example "5432/tcp".
	Ports []string
}

// Machine is a container. Its methods may be called from any goroutine, but not concurrently.
type Machine struct {
	Name      string
	engine    *images.Engine
	container testcontainers.Container
	id        string            // its name with the engine
	ports     map[string]string // "5432/tcp" -> HOST:PORT
}

// Start starts a machine. It is removed when the test ends, and the end of its log is shown if the test failed.
func (n *Network) Start(tb testing.TB, s Spec) *Machine {
	tb.Helper()
	m := &Machine{Name: s.Name, engine: n.engine, id: UniqueName(), ports: map[string]string{}}
	bindings, err := m.publish(s.Ports)
	if err != nil {
		tb.Fatal(err)
	}
	if err := guard.Container(m.id); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.remove(tb) })
	err = m.step("start", func(ctx context.Context) (err error) {
		m.container, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
			ContainerRequest: testcontainers.ContainerRequest{
				Name: m.id, Image: s.Image, Cmd: s.Args, Env: s.Env, ExposedPorts: s.Ports,
				Networks: []string{n.name}, NetworkAliases: map[string][]string{n.name: {s.Name}},
				ConfigModifier: func(c *dockercontainer.Config) { c.Hostname = s.Name },
				HostConfigModifier: func(c *dockercontainer.HostConfig) {
					c.PortBindings = bindings
					c.ShmSize = 128 << 20
				},
			},
			Started: true, Logger: tclog.NewNoopLogger(),
		})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// publish chooses ports that do not change with restarts, unlike those that the engine would choose.
func (m *Machine) publish(ports []string) (network.PortMap, error) {
	ip, err := netip.ParseAddr(m.engine.Bind)
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
		m.ports[p] = net.JoinHostPort(m.engine.Host, port)
		bindings[network.MustParsePort(p)] = []network.PortBinding{{HostIP: ip, HostPort: port}}
	}
	return bindings, nil
}

func (m *Machine) remove(tb testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if tb.Failed() {
		tb.Logf("end of the log of %s:\n%s", m.Name, m.Log("80"))
	}
	if err := guard.RemoveContainer(ctx, m.engine.Client.Client, m.id); err != nil {
		tb.Errorf("remove %s: %v", m.Name, err)
	}
}

// step performs an operation on the machine with a timeout.
func (m *Machine) step(what string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", what, m.Name, err)
	}
	return nil
}

// Address returns the HOST:PORT at which the test reaches a port of Spec.Ports.
func (m *Machine) Address(port string) string { return m.ports[port] }

// Kill ends all processes of the machine with SIGKILL, as a power cut would, and waits for their end. Files on disk
// stay.
func (m *Machine) Kill() error {
	return m.step("kill", func(ctx context.Context) error {
		_, err := m.engine.End(ctx, m.id, "SIGKILL")
		return err
	})
}

// Restart starts a machine that was killed.
func (m *Machine) Restart() error {
	return m.step("start", func(ctx context.Context) error {
		_, err := m.engine.Client.ContainerStart(ctx, m.id, client.ContainerStartOptions{})
		return err
	})
}

// Run runs a shell command on the machine and returns what it wrote.
func (m *Machine) Run(command string) (out string, err error) {
	err = m.step("run '"+command+"' on", func(ctx context.Context) error {
		status, r, err := m.container.Exec(ctx, []string{"bash", "-c", command}, exec.Multiplexed())
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		out = strings.TrimSpace(string(b))
		if err == nil && status != 0 {
			err = fmt.Errorf("status %d: %s", status, out)
		}
		return err
	})
	return out, err
}

// Log returns the last lines of the output of the machine's processes, "all" for all of it.
func (m *Machine) Log(lines string) string {
	var log string
	err := m.step("read the log of", func(ctx context.Context) error {
		log = m.engine.Log(ctx, m.id, lines)
		return nil
	})
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return log
}
