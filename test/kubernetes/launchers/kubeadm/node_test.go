package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	osexec "os/exec"
	"path/filepath"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	corev1 "k8s.io/api/core/v1"

	"github.com/sqlstore/sqlstore/internal/testing/images"
)

// timeout limits each start, and each command in a container.
const timeout = 2 * time.Minute

// node is the machine that runs Pods: a container whose network they share.
type node struct {
	*testing.T
	container testcontainers.Container
	address   string
}

func startNode(t *testing.T) *node {
	t.Helper()
	if _, err := images.Find(); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "node")
	cmd := osexec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./node")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the node's program: %v\n%s", err, out)
	}
	n := &node{T: t}
	n.container = n.start(testcontainers.WithEntrypoint("/node"), testcontainers.WithCmd(),
		testcontainers.WithHostConfigModifier(func(h *dockercontainer.HostConfig) {
			h.Binds = []string{program + ":/node:ro"}
		}))
	var err error
	if n.address, err = n.container.ContainerIP(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// start starts a container of the image under test, and removes it when the test ends.
func (n *node) start(options ...testcontainers.ContainerCustomizer) testcontainers.Container {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), timeout)
	defer cancel()
	c, err := testcontainers.Run(ctx, images.Sqlstore(n.T), options...)
	testcontainers.CleanupContainer(n.T, c)
	if err != nil {
		n.Fatal(err)
	}
	return c
}

// run starts a Pod as a kubelet does, but with the image under test.
func (n *node) run(p *corev1.Pod) testcontainers.Container {
	n.Helper()
	if !p.Spec.HostNetwork || len(p.Spec.Containers) != 1 || len(p.Spec.InitContainers) != 0 {
		n.Fatalf("not a Pod of one container in the node's network: %+v", p.Spec)
	}
	c := p.Spec.Containers[0]
	directories := map[string]string{}
	for _, v := range p.Spec.Volumes {
		if v.HostPath == nil {
			n.Fatalf("not a directory of the node: %+v", v)
		}
		directories[v.Name] = v.HostPath.Path
	}
	var binds []string
	for _, m := range c.VolumeMounts {
		binds = append(binds, directories[m.Name]+":"+m.MountPath)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return n.start(testcontainers.WithEntrypoint(c.Command...), testcontainers.WithCmd(c.Args...),
		testcontainers.WithEnv(env), testcontainers.WithHostConfigModifier(func(h *dockercontainer.HostConfig) {
			h.Binds = binds
			h.NetworkMode = dockercontainer.NetworkMode("container:" + n.container.GetContainerID())
		}))
}

// probe calls a container's probe from the node.
func (n *node) probe(c corev1.Container, p *corev1.Probe) error {
	if p == nil || p.HTTPGet == nil {
		return errors.New("the Pod has no such HTTP probe")
	}
	port := p.HTTPGet.Port.String()
	for _, named := range c.Ports {
		if named.Name == port {
			port = fmt.Sprint(named.ContainerPort)
		}
	}
	out, err := n.execute(n.container, "/node", "http://"+net.JoinHostPort(p.HTTPGet.Host, port)+p.HTTPGet.Path)
	if err != nil {
		return fmt.Errorf("probe %s: %w\n%s", p.HTTPGet.Path, err, out)
	}
	return nil
}

// execute returns what a command in a container prints.
func (n *node) execute(c testcontainers.Container, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(n.Context(), timeout)
	defer cancel()
	code, r, err := c.Exec(ctx, command, exec.Multiplexed())
	if err != nil {
		return "", err
	}
	out, err := io.ReadAll(r)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return string(out), err
}
