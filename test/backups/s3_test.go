package backups

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// gateway is a real S3 server over a directory.
type gateway struct {
	t       *testing.T
	program string
	address string
	dir     string
	cmd     *exec.Cmd
	out     bytes.Buffer
}

const s3Key, s3Secret = "sqlstore", "a-secret-for-tests"

func startGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, program: programs.VersityGW.Path(t), dir: t.TempDir()}
	var err error
	if g.address, err = launch.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(g.dir, "data", "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.start()
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			t.Logf("the S3 server:\n%s", g.out.String())
		}
	})
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	g.cmd = exec.Command(g.program, "--port", g.address, "--access", s3Key, "--secret", s3Secret, "posix", "--sidecar",
		filepath.Join(g.dir, "sidecar"), filepath.Join(g.dir, "data"))
	g.cmd.Stdout, g.cmd.Stderr = &g.out, &g.out
	if err := os.MkdirAll(filepath.Join(g.dir, "sidecar"), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	wait(g.t, "the S3 server listens", func() bool {
		conn, err := net.Dial("tcp", g.address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// cutter passes connections on, and cuts them after a random number of bytes.
type cutter struct {
	net.Listener

	to   string
	mu   sync.Mutex
	rnd  *rand.Rand
	off  atomic.Bool // cuts nothing
	cuts atomic.Int64
}

func startCutter(t *testing.T, to string, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to, rnd: rand.New(rand.NewPCG(seed, 3))}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.pass(conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return c
}

func (c *cutter) pass(conn net.Conn) {
	defer conn.Close()
	up, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(conn, up)
		_ = conn.Close()
	}()
	for {
		c.mu.Lock()
		limit := c.rnd.Int64N(20_000)
		c.mu.Unlock()
		if n, err := io.CopyN(up, conn, limit); err != nil || n < limit {
			return
		}
		if !c.off.Load() {
			c.cuts.Add(1)
			return
		}
	}
}
