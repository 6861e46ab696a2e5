package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/test/support/images"
	"github.com/sqlstore/sqlstore/test/support/launch"
	"github.com/sqlstore/sqlstore/test/support/pgserver/guard"
)

// Host is a container on both networks. Its methods may be called from any goroutine, but not concurrently.
type Host struct {
	// Alias is its name on the private network.
	Alias string
	// Addr is its address there, which never changes.
	Addr netip.Addr

	engine  *images.Engine
	private *Network
	name    string
	ports   map[string]string // "5432/tcp" -> HOST:PORT where it is published
}

// newHost starts a container. The end of the test removes it, after showing its log if the test failed. newHost fills
// in what req leaves out.
func newHost(tb testing.TB, net Networks, alias string, req testcontainers.ContainerRequest, publish ...string) *Host {
	tb.Helper()
	h := &Host{
		Alias: alias, Addr: net.private.address(), engine: net.private.engine, private: net.private,
		name: uniqueName(), ports: map[string]string{},
	}
	bindings, err := h.publish(publish)
	if err != nil {
		tb.Fatal(err)
	}
	if err := guard.Container(h.name); err != nil {
		tb.Fatal(err)
	}
	configure := req.HostConfigModifier
	req.Name, req.ExposedPorts = h.name, publish
	req.Networks = []string{net.public.name}
	req.NetworkAliases = map[string][]string{net.public.name: {aside(alias)}}
	req.HostConfigModifier = func(c *dockercontainer.HostConfig) {
		c.PortBindings = bindings
		if configure != nil {
			configure(c)
		}
	}
	tb.Cleanup(func() { h.remove(tb) })
	ctx, cancel := context.WithTimeout(tb.Context(), stepTimeout)
	defer cancel()
	if _, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: req, Logger: tclog.NewNoopLogger(),
	}); err != nil {
		tb.Fatalf("create %s: %v", alias, err)
	}
	if err := errors.Join(net.private.connect(ctx, h), h.Start()); err != nil {
		tb.Fatal(err)
	}
	return h
}

// aside is a host's name on the public network, under which it can be reached even while it is cut off.
func aside(alias string) string { return alias + "-aside" }

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
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if tb.Failed() {
		tb.Logf("end of the log of %s:\n%s", h.Alias, h.log("60"))
	}
	if err := guard.RemoveContainer(ctx, h.engine.Client.Client, h.name); err != nil {
		tb.Errorf("remove %s: %v", h.Alias, err)
	}
}

// step performs an operation on the host with a timeout.
func (h *Host) step(what string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", what, h.Alias, err)
	}
	return nil
}

// Signal sends a signal to the host's first process: STOP and CONT freeze and thaw it.
func (h *Host) Signal(name string) error {
	return h.step("send "+name+" to", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerKill(ctx, h.name, client.ContainerKillOptions{Signal: "SIG" + name})
		return err
	})
}

// End sends a signal and waits until the host is down. It returns the exit status.
func (h *Host) End(signal string) (status int64, err error) {
	err = h.step("end", func(ctx context.Context) error {
		status, err = h.engine.End(ctx, h.name, "SIG"+signal)
		return err
	})
	return status, err
}

// Start starts a host that is down.
func (h *Host) Start() error {
	return h.step("start", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerStart(ctx, h.name, client.ContainerStartOptions{})
		return err
	})
}

// Pause freezes all processes of the host: its connections stay, and nothing answers.
func (h *Host) Pause() error {
	return h.step("pause", func(ctx context.Context) error { return h.engine.Pause(ctx, h.name) })
}

// Unpause resumes a paused host.
func (h *Host) Unpause() error {
	return h.step("unpause", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerUnpause(ctx, h.name, client.ContainerUnpauseOptions{})
		return err
	})
}

// CutOff disconnects the host from the private network, as if its cable were unplugged. No connection is closed.
func (h *Host) CutOff() error {
	return h.step("cut off", func(ctx context.Context) error { return h.private.disconnect(ctx, h) })
}

// Rejoin reconnects a host to the private network, with the same address.
func (h *Host) Rejoin() error {
	return h.step("rejoin", func(ctx context.Context) error { return h.private.connect(ctx, h) })
}

// Log returns all that the host's processes have written to standard output and standard error.
func (h *Host) Log() string { return h.log("all") }

// WaitLog waits until the log contains a text: the engine passes it on with a delay.
func (h *Host) WaitLog(text string) error {
	return h.step("read the log of", func(ctx context.Context) error {
		for !strings.Contains(h.Log(), text) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not contain %q: %w", text, ctx.Err())
			case <-time.After(pollInterval):
			}
		}
		return nil
	})
}

func (h *Host) log(lines string) string {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return h.engine.Log(ctx, h.name, lines)
}
