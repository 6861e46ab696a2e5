package images

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// engineTimeout is how long an engine may take to answer before it counts as absent.
const engineTimeout = 10 * time.Second

// Engine is a container engine that answered.
type Engine struct {
	// Client is its client. It is never closed: the process shares it.
	Client *testcontainers.DockerClient
	// Host is where published ports are reachable from here.
	Host string
	// Bind is the address to publish ports on: the loopback interface if that is enough.
	Bind string
	// CgroupParent is for a container's host configuration. Under the driver cgroupfs, all containers together weigh as
	// much as one process outside them, and a busy machine would starve them. So each is placed beside those processes.
	CgroupParent string
}

// Find returns the engine that testcontainers uses, or the reason why there is none; it looks once per process. Call it
// before anything else of testcontainers, because it sets that package's environment unless the user has: no reaper
// container, whose image may be unavailable (package guard cleans up instead), and the loopback interface as the
// engine's host on a machine that looks like a container to testcontainers but is not one of this engine.
var Find = sync.OnceValues(find)

func find() (*Engine, error) {
	if os.Getenv("TESTCONTAINERS_RYUK_DISABLED") == "" {
		_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	if notOfThisEngine(ctx) {
		_ = os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	cli, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	info, err := cli.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the container engine: %w", err)
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, fmt.Errorf("find the container engine's host: %w", err)
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the container engine's host: %w", err)
	}
	e := &Engine{Client: cli, Host: host, Bind: "0.0.0.0"}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		e.Host, e.Bind = "127.0.0.1", "127.0.0.1" // localhost may resolve to ::1 first, where nothing is published
	}
	if info.Info.CgroupDriver == "cgroupfs" {
		e.CgroupParent = "/"
	}
	return e, nil
}

// connect converts testcontainers' panic, if it finds no engine at all, to an error.
func connect(ctx context.Context) (cli *testcontainers.DockerClient, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("find a container engine: %v", r)
		}
	}()
	cli, err = testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("find a container engine: %w", err)
	}
	return cli, nil
}

// notOfThisEngine reports whether the process runs on the engine's own host although /.dockerenv suggests a container:
// the engine behind the local socket has no container with this host name.
func notOfThisEngine(ctx context.Context) bool {
	if os.Getenv("TESTCONTAINERS_HOST_OVERRIDE") != "" || os.Getenv("DOCKER_HOST") != "" {
		return false
	}
	if _, err := os.Stat("/.dockerenv"); err != nil {
		return false
	}
	name, err := os.Hostname()
	if err != nil {
		return false
	}
	cli, err := client.New(client.FromEnv)
	if err != nil {
		return false
	}
	defer cli.Close()
	if _, err := cli.Ping(ctx, client.PingOptions{}); err != nil {
		return false
	}
	_, err = cli.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	return err != nil
}
