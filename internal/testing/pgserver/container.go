package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

const (
	postgresPort = "5432/tcp"
	memory       = "/memory" // a tmpfs, for Options.Memory
)

// container is a server in a container.
type container struct {
	engine   *images.Engine
	image    string
	name     string
	hostPort string
	settings []string
	secret   string   // initdb's password
	pages    []string // arguments of initdb
	memory   bool     // Options.Memory
	primary  string   // connection string of the server to follow, empty on a primary
	network  string   // that it shares with primary and standbys, empty without them

	once sync.Once // creates the container
	err  error
}

func newContainer(ctx context.Context, o Options) (*container, error) {
	e, err := images.Find()
	if err != nil {
		return nil, err
	}
	c := &container{engine: e, image: env.PostgresImage.Text(), settings: o.Settings, memory: o.Memory}
	version := o.Version
	if c.image == "" {
		if version == "" {
			version = defaultVersion
		}
		if c.image, err = images.Postgres(ctx, e, version); err != nil {
			return nil, err
		}
	}
	c.pages, c.secret = o.pages(version), secret(version)
	return c, c.identify()
}

// identify gives the container its own name and port. A port chosen by the engine would change with each start.
func (c *container) identify() error {
	addr, err := launch.FreeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	c.hostPort = net.JoinHostPort(c.engine.Host, port)
	c.name = uniqueName()
	return guard.Container(c.name)
}

func uniqueName() string { return "sqlstore-test-" + strings.ToLower(rand.Text()[:12]) }

func (c *container) addr() string     { return c.hostPort }
func (c *container) describe() string { return "container " + c.name + " of " + c.image }

// create creates the container and starts it for the first time.
func (c *container) create(ctx context.Context) error {
	bind, err := netip.ParseAddr(c.engine.Bind)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(c.hostPort)
	if err != nil {
		return err
	}
	// Only the programs of any image are used, so that all behave alike; the official image's script supports no
	// standby.
	cmd := []string{"bash", "-c", images.PostgresEntrypoint, "entrypoint", "postgres", "-c", "listen_addresses=*"}
	for _, s := range c.settings {
		cmd = append(cmd, "-c", s)
	}
	req := testcontainers.ContainerRequest{
		Image: c.image,
		Name:  c.name,
		Env: map[string]string{
			"POSTGRES_USER": superuser, "POSTGRES_PASSWORD": c.secret, "PRIMARY_CONNINFO": c.primary,
			// an empty cluster is quickly recreated; later writes are synced
			"POSTGRES_INITDB_ARGS": strings.Join(append([]string{"--no-sync"}, c.pages...), " "),
		},
		ExposedPorts: []string{postgresPort},
		ConfigModifier: func(cfg *dockercontainer.Config) {
			cfg.User = "postgres"
			cfg.Entrypoint = cmd[:1]
			cfg.Cmd = cmd[1:]
			cfg.StopSignal = "SIGINT" // a fast shutdown
		},
		HostConfigModifier: func(h *dockercontainer.HostConfig) {
			h.ShmSize = 256 << 20
			h.CgroupParent = c.engine.CgroupParent
			if c.memory {
				h.Tmpfs = map[string]string{memory: "mode=0777"}
			}
			h.PortBindings = network.PortMap{network.MustParsePort(postgresPort): {{HostIP: bind, HostPort: port}}}
		},
	}
	if c.memory {
		req.Env["PGDATA"] = memory + "/data"
	}
	if c.network != "" {
		req.Networks = []string{c.network}
	}
	_, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: req, Started: true, Logger: tclog.NewNoopLogger(),
	})
	if err == nil && c.memory {
		err = c.bypass(ctx)
	}
	return err
}

// bypass replaces the published port, whose proxy copies every byte, by the container's own address if that can be
// reached. The address changes with a restart, which a server in memory does not survive.
func (c *container) bypass(ctx context.Context) error {
	r, err := c.engine.Client.ContainerInspect(ctx, c.name, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	for _, n := range r.Container.NetworkSettings.Networks {
		addr := net.JoinHostPort(n.IPAddress.String(), strings.TrimSuffix(postgresPort, "/tcp"))
		conn, err := net.DialTimeout("tcp", addr, connectTimeout)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) { // it does not listen yet
			c.hostPort = addr
		}
	}
	return nil
}

func (c *container) start(ctx context.Context) error {
	first := false
	c.once.Do(func() { first, c.err = true, c.create(ctx) })
	if first || c.err != nil {
		return c.err
	}
	_, err := c.engine.Client.ContainerStart(ctx, c.name, client.ContainerStartOptions{})
	return err
}

func (c *container) stop(ctx context.Context) error {
	seconds := int(stepTimeout.Seconds())
	_, err := c.engine.Client.ContainerStop(ctx, c.name, client.ContainerStopOptions{Timeout: &seconds})
	return err
}

func (c *container) kill(ctx context.Context) error {
	_, err := c.engine.End(ctx, c.name, "SIGKILL")
	return err
}

func (c *container) pause(ctx context.Context) error {
	return c.engine.Pause(ctx, c.name)
}

func (c *container) unpause(ctx context.Context) error {
	_, err := c.engine.Client.ContainerUnpause(ctx, c.name, client.ContainerUnpauseOptions{})
	return err
}

func (c *container) running(ctx context.Context) bool {
	r, err := c.engine.Client.ContainerInspect(ctx, c.name, client.ContainerInspectOptions{})
	return err == nil && r.Container.State != nil && r.Container.State.Running
}

func (c *container) remove(ctx context.Context) error {
	err := guard.RemoveContainer(ctx, c.engine.Client.Client, c.name)
	if c.network != "" && c.primary == "" {
		// The standbys, which were started later, are already gone.
		_, errNetwork := c.engine.Client.NetworkRemove(ctx, c.network, client.NetworkRemoveOptions{})
		err = errors.Join(err, errNetwork)
	}
	return err
}

func (c *container) logs(ctx context.Context) string {
	return c.engine.Log(ctx, c.name, "500")
}

// standby makes a container on a network with this one, where they reach each other by name.
func (c *container) standby(ctx context.Context, name string) (node, error) {
	if c.network == "" {
		net := uniqueName()
		if err := guard.Network(net); err != nil {
			return nil, err
		}
		if _, err := c.engine.Client.NetworkCreate(ctx, net, client.NetworkCreateOptions{
			Driver: "bridge",
		}); err != nil {
			return nil, err
		}
		c.network = net
		if _, err := c.engine.Client.NetworkConnect(ctx, net, client.NetworkConnectOptions{
			Container: c.name,
		}); err != nil {
			return nil, err
		}
	}
	s := &container{engine: c.engine, image: c.image, settings: c.settings, network: c.network}
	s.primary = conninfo(c.name, strings.TrimSuffix(postgresPort, "/tcp"), name)
	return s, s.identify()
}
