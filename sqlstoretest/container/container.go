// Package container starts sqlstore in a container, for tests that need it as a separate process. It is a separate
// package so that other programs do not depend on testcontainers.
package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	// ImageVariable is the environment variable that names the image to start if the caller does not.
	ImageVariable = "SQLSTORE_IMAGE"
	// DefaultImage is what `make image` builds.
	DefaultImage = "sqlstore:dev"

	clientPort   = "2379/tcp"
	readyTimeout = time.Minute
)

// Container is a running sqlstore.
type Container struct {
	testcontainers.Container
}

// Run starts sqlstore from an image and waits until it is ready. If image is "", it uses the image named by
// [ImageVariable], otherwise [DefaultImage]. The store is in the container and not synced to disk.
// testcontainers.WithCmdArgs adds flags, such as --datastore=postgres://..., which take precedence.
// testcontainers.CleanupContainer terminates the container at the end of a test.
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	if image == "" {
		image = os.Getenv(ImageVariable)
	}
	if image == "" {
		image = DefaultImage
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, fmt.Errorf("start sqlstore: no container engine: %w", err)
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, fmt.Errorf("start sqlstore: no container engine: %w", err)
	}
	all := append([]testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(clientPort),
		testcontainers.WithCmd("serve", "--data-dir", "/data", "--unsafe-no-fsync",
			"--listen-client-urls", "http://0.0.0.0:2379", "--insecure-plaintext"),
		testcontainers.WithWaitStrategyAndDeadline(readyTimeout, wait.ForHTTP("/readyz").WithPort(clientPort)),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { publish(c, host) }),
	}, options...)
	c, err := testcontainers.Run(ctx, image, all...)
	if err != nil {
		if c != nil {
			err = errors.Join(err, testcontainers.TerminateContainer(c))
		}
		return nil, fmt.Errorf("start sqlstore from the image %s: %w", image, err)
	}
	return &Container{c}, nil
}

// publish hides the port from other machines if the engine runs on this one.
func publish(c *container.HostConfig, host string) {
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return
	}
	c.PortBindings = network.PortMap{network.MustParsePort(clientPort): {{HostIP: netip.MustParseAddr("127.0.0.1")}}}
}

// ClientURL returns the URL for clients outside the container's network. Inside, it is http://<container name>:2379.
func (c *Container) ClientURL(ctx context.Context) (string, error) {
	return c.PortEndpoint(ctx, clientPort, "http")
}
