// Package compose tests the repository's compose.yaml: two replicas over one Postgres start from nothing, clients of
// one see what those of the other write, and one continues when the other stops.
package compose

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

const (
	upTimeout   = 3 * time.Minute
	stepTimeout = 30 * time.Second
)

// project is a running compose.yaml, with its own name and ports.
type project struct {
	testing.TB
	command []string // up to the project's name
	env     []string
	ports   [2]string
}

// newProject makes sure that whatever the project creates is removed when the test or its process ends.
func newProject(t *testing.T) *project {
	engine, err := images.Find()
	if err != nil {
		t.Fatalf("this test needs a container engine: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	postgres, err := images.Postgres(ctx, engine, "15")
	if err != nil {
		t.Fatal(err)
	}
	root := pages.Root(t)
	password := filepath.Join(t.TempDir(), "postgres-password")
	// the users in the containers read it
	if err := os.WriteFile(password, []byte("of this test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &project{TB: t}
	p.command = append(find(t), "--file", filepath.Join(root, "compose.yaml"), "--project-name", hosts.UniqueName())
	p.env = append(os.Environ(), "POSTGRES_IMAGE="+postgres, "SQLSTORE_IMAGE="+images.Sqlstore(t),
		"POSTGRES_PASSWORD_FILE="+password)
	for i := range p.ports {
		addr, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		_, p.ports[i], _ = net.SplitHostPort(addr)
		p.env = append(p.env, fmt.Sprintf("PORT_%d=%s", i+1, p.ports[i]))
	}
	p.removeAtEnd()
	return p
}

// find returns the command that this machine has for Docker Compose.
func find(tb testing.TB) []string {
	tb.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	path, err := exec.LookPath("docker-compose")
	if err != nil {
		tb.Fatal("Docker Compose is missing: install it (Debian: 'sudo apt-get install docker-compose')")
	}
	return []string{path}
}

// removeAtEnd starts a process that waits for the end of a pipe, at the latest when this process ends, and then removes
// everything that the project has created.
func (p *project) removeAtEnd() {
	down := slices.Concat(p.command, []string{"down", "--volumes", "--timeout", "1"})
	cmd := exec.Command("sh", append([]string{"-c", `cat >/dev/null; exec "$@"`, "sh"}, down...)...)
	cmd.Env = p.env
	// What ends the test's process group, usually an interrupt, must not end this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// A file, because a pipe to this process would break with it.
	out, err := os.CreateTemp(p.TempDir(), "down")
	if err != nil {
		p.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	pipe, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if p.Failed() {
			logs, _ := p.compose(context.Background(), "logs", "--no-color", "--tail=60")
			p.Logf("%s", logs)
		}
		_ = pipe.(io.Closer).Close()
		if err := cmd.Wait(); err != nil {
			text, _ := os.ReadFile(out.Name())
			p.Errorf("remove the project: %v\n%s", err, text)
		}
	})
}

func (p *project) compose(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	argv := slices.Concat(p.command, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("compose %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (p *project) must(args ...string) string {
	p.Helper()
	out, err := p.compose(p.Context(), args...)
	if err != nil {
		p.Fatal(err)
	}
	return out
}

func (p *project) client(i int) *clientv3.Client {
	p.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:" + p.ports[i]}, Logger: zap.NewNop()})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { c.Close() })
	return c
}

// put writes, retrying until the server is up.
func (p *project) put(c *clientv3.Client, key, value string) int64 {
	p.Helper()
	deadline := time.Now().Add(stepTimeout)
	for {
		ctx, cancel := context.WithTimeout(p.Context(), stepTimeout/10)
		r, err := c.Put(ctx, key, value)
		cancel()
		if err == nil {
			return r.Header.Revision
		}
		if time.Now().After(deadline) {
			p.Fatalf("put %s: %v", key, err)
		}
	}
}

// sees reads the latest value of a key.
func (p *project) sees(c *clientv3.Client, key, value string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), stepTimeout)
	defer cancel()
	r, err := c.Get(ctx, key)
	if err != nil {
		p.Fatalf("get %s: %v", key, err)
	}
	if len(r.Kvs) != 1 || string(r.Kvs[0].Value) != value {
		p.Fatalf("get %s: %v, want %q", key, r.Kvs, value)
	}
}

// event waits for a watch's next event.
func (p *project) event(w clientv3.WatchChan, key, value string) {
	p.Helper()
	select {
	case r := <-w:
		if err := r.Err(); err != nil || len(r.Events) != 1 || string(r.Events[0].Kv.Key) != key ||
			string(r.Events[0].Kv.Value) != value {
			p.Fatalf("the watch has %+v, %v; want %s = %s", r.Events, err, key, value)
		}
	case <-time.After(stepTimeout):
		p.Fatalf("the watch received nothing about %s", key)
	}
}

func TestTwoReplicas(t *testing.T) {
	p := newProject(t)
	began := time.Now()
	p.must("up", "--detach")
	first, second := p.client(0), p.client(1)

	rev := p.put(first, "a", "1")
	t.Logf("up, and the first write acknowledged, after %.1f s", time.Since(began).Seconds())
	p.put(second, "up", "") // it may need longer to start
	p.sees(second, "a", "1")
	w := second.Watch(t.Context(), "a", clientv3.WithRev(rev))
	p.event(w, "a", "1")
	p.put(first, "a", "2")
	p.event(w, "a", "2")

	members, err := second.MemberList(t.Context())
	if err != nil || len(members.Members) != 2 {
		t.Fatalf("members: %v, %v", members, err)
	}

	// The health check's command. Every condition of concern is listed, such as missing checksums of pages.
	if out := p.must("exec", "-T", "sqlstore-2", "sqlstore", "status"); strings.Contains(out, "NoPageChecksums") {
		t.Errorf("status:\n%s", out)
	}

	p.must("stop", "sqlstore-1")
	p.put(second, "a", "3")
	p.event(w, "a", "3")
	p.sees(second, "a", "3")

	p.must("start", "sqlstore-1")
	p.put(first, "b", "4")
	p.sees(second, "b", "4")
	p.sees(first, "a", "3")

	// The volume keeps the data when all containers are new.
	p.must("down")
	p.must("up", "--detach")
	p.put(second, "up", "")
	p.sees(second, "a", "3")
}
