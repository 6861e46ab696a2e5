// Package guard removes what a test process leaves behind: containers, networks, and Postgres servers with their
// directories. It does so when the process ends, however it ends.
//
// The guard is a second process of the same test binary. It waits for the end of a pipe whose other end the test
// process holds, and receives the names of things before they are created. For tests only.
package guard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// role is a guard's.
const role = "guard"

// removeTimeout limits the whole cleanup.
const removeTimeout = time.Minute

func init() {
	if _, ok := env.IsChild(role); ok {
		wait(os.Stdin)
		os.Exit(0)
	}
}

// Container registers a container for removal, with its volumes.
func Container(name string) error { return tell("container", name) }

// Network registers a network for removal, after the containers.
func Network(name string) error { return tell("network", name) }

// Server registers the Postgres server that runs on dir/data to be killed, and dir for removal.
func Server(dir string) error { return tell("server", dir) }

var (
	mu   sync.Mutex
	pipe io.Writer // to the guard; never closed, the system does so when the process ends
)

func tell(kind, name string) error {
	mu.Lock()
	defer mu.Unlock()
	if pipe == nil {
		w, err := start()
		if err != nil {
			return fmt.Errorf("start the guard that cleans up after tests: %w", err)
		}
		pipe = w
	}
	if _, err := fmt.Fprintf(pipe, "%s %s\n", kind, name); err != nil {
		return fmt.Errorf("send to the guard that cleans up after tests: %w", err)
	}
	return nil
}

func start() (io.Writer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), env.AsChild(role, ""))
	cmd.Dir = "/"
	// What ends the test's process group, usually an interrupt, must not end the guard.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return w, cmd.Start()
}

// wait reads names until the test process is gone, then removes the objects with these names.
func wait(r io.Reader) {
	names := map[string][]string{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		kind, name, _ := strings.Cut(lines.Text(), " ")
		names[kind] = append(names[kind], name)
	}
	for _, dir := range names["server"] {
		KillServer(dir)
		_ = os.RemoveAll(dir)
	}
	if len(names["container"])+len(names["network"]) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return
	}
	for _, name := range names["container"] {
		_ = RemoveContainer(ctx, cli.Client, name)
	}
	for _, name := range names["network"] {
		_, _ = cli.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	}
}

// RemoveContainer removes a container in any state, with its volumes.
func RemoveContainer(ctx context.Context, cli *client.Client, name string) error {
	// A paused container receives no signal.
	_, _ = cli.ContainerUnpause(ctx, name, client.ContainerUnpauseOptions{})
	_, err := cli.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}
