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

// An engine that does not answer within this time is not there.
const engineTimeout = 10 * time.Second

// Engine is a container engine that answered.
type Engine struct {
	// Client speaks to it. It is never closed: the process shares it.
	Client *testcontainers.DockerClient
	// Host is where published ports are reached from here.
	Host string
	// Bind is the address to publish ports on: the loopback where that is enough.
	Bind string
}

// Find returns the engine that testcontainers uses, or why there is none; it asks once per process. Call it before anything
// else of testcontainers, as it sets that package's environment where the user has not:
// no reaper container, whose image may be out of reach (package guard cleans up instead), and the loopback as the engine's
// host in a machine that looks like a container to testcontainers and is not one of this engine.
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
	if _, err := cli.Ping(ctx, client.PingOptions{}); err != nil {
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
		e.Host, e.Bind = "127.0.0.1", "127.0.0.1" // localhost may be ::1 first, where nothing is published
	}
	return e, nil
}

// connect turns testcontainers' panic, where it finds no engine at all, into an error.
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

// notOfThisEngine says that the process runs on the engine's own host although /.dockerenv suggests a container: the engine
// behind the local socket knows no container of this host name.
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
