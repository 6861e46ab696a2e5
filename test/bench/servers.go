package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// server is how one of the compared servers is built and launched.
type server struct {
	name string
	bin  string // set by build, or given by the caller
	// build makes the binary; nil when bin is set.
	build func(out string) *exec.Cmd
	// args launches it on a data directory; durable asks for an fsync before each acknowledgement.
	args func(dir, port string, durable bool) []string
	// oneKey: takes only kube-apiserver's own transactions, no batch of puts.
	oneKey bool
	// canned: answers with prepared replies, so contents cannot be checked, and stores nothing.
	canned bool
	// note says in the table how durability is set.
	note string
}

// newServer returns the server of that name. A name that is none of the known
// ones is another sqlstore, to compare two builds; it needs a binary.
func newServer(name, bin string, c *config) (*server, error) {
	s := &server{name: name, bin: bin}
	switch name {
	case "etcd":
		s.build = goBuild("etcd", "go.etcd.io/etcd/server/v3")
		s.args = etcdArgs
		s.note = "its default (--unsafe-no-fsync only while filling)"
	case "kine":
		s.build = goBuild("kine", "github.com/k3s-io/kine")
		s.args = kineArgs
		s.oneKey = true
		s.note = "DSN with _synchronous=FULL (kine's own default is NORMAL, which does not sync each commit)"
	case "bare":
		s.canned = true
		s.note = "stores nothing"
		if s.bin == "" {
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			s.bin = self
		}
		s.args = func(_, port string, _ bool) []string {
			return []string{"-serve-bare", "127.0.0.1:" + port, "-objects", fmt.Sprint(c.objects), "-value", fmt.Sprint(c.value)}
		}
	default:
		if name != "sqlstore" && bin == "" {
			return nil, fmt.Errorf("server %q needs a binary: %s=/path", name, name)
		}
		s.build = goBuild("../..", "./cmd/sqlstore")
		s.args = sqlstoreArgs
		s.note = "its default (--unsafe-no-fsync only while filling)"
	}
	return s, nil
}

// goBuild builds pkg inside the module in dir, whose versions are pinned there.
func goBuild(dir, pkg string) func(string) *exec.Cmd {
	return func(out string) *exec.Cmd {
		return exec.Command("go", "build", "-C", dir, "-o", out, pkg)
	}
}

func (s *server) prepare(dir string) error {
	if s.bin != "" {
		return nil
	}
	s.bin = filepath.Join(dir, s.name)
	if out, err := s.build(s.bin).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", s.name, err, out)
	}
	return nil
}

func etcdArgs(dir, port string, durable bool) []string {
	client, peer := "http://127.0.0.1:"+port, "http://127.0.0.1:"+freePort()
	a := []string{
		"--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--quota-backend-bytes", fmt.Sprint(8 << 30), "--log-level", "error",
	}
	if !durable {
		a = append(a, "--unsafe-no-fsync")
	}
	return a
}

func sqlstoreArgs(dir, port string, durable bool) []string {
	client := "http://127.0.0.1:" + port
	a := []string{
		"serve", "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-metrics-urls", "http://127.0.0.1:" + freePort(),
		"--quota-backend-bytes", fmt.Sprint(8 << 30), "--log-level", "error",
	}
	if !durable {
		a = append(a, "--unsafe-no-fsync")
	}
	return a
}

func kineArgs(dir, port string, durable bool) []string {
	sync := "FULL"
	if !durable {
		sync = "OFF"
	}
	// kine's own defaults for everything but synchronous.
	dsn := "sqlite://" + filepath.Join(dir, "state.db") +
		"?_journal_mode=WAL&_busy_timeout=30000&_synchronous=" + sync + "&_txlock=immediate&_stmt_cache_size=20&cache=shared"
	return []string{"--endpoint", dsn, "--listen-address", "127.0.0.1:" + port, "--metrics-bind-address", "0"}
}

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "0"
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
