package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// server is how one of the compared servers is built and launched.
type server struct {
	name string
	bin  string // set by build, or given by the caller
	// program is built unless bin is given; nil is sqlstore.
	program *programs.Program
	args    func(launching) []string
	// oneKey: supports only kube-apiserver's own transactions, no batch of puts.
	oneKey bool
	// lags: sometimes its watches lose events, or it does not know a revision that it has returned. The run reports
	// this and continues.
	lags bool
	// canned: answers with prepared replies, so contents cannot be checked, and stores nothing.
	canned bool
	// onPostgres: keeps its data in a Postgres server; count is how many processes, its replicas, share that one.
	onPostgres bool
	count      int
	// hasObjects: also serves the list/watch API.
	hasObjects bool
	// note describes in the table how durability is configured.
	note string
}

// launching configures a server's process.
type launching struct {
	dir, port string
	dsn       string        // of its Postgres database, if it has one
	replica   int           // from 1 on
	objects   string        // the port of the list/watch API; "" for a server without it
	durable   bool          // an fsync before each acknowledgement
	retention time.Duration // of automatic compaction, 0 for none
	auth      bool          // with users
}

// newServer returns the server of that name. An unknown name is another sqlstore, to compare two builds; it needs a
// binary. NAME-postgres and NAME-postgres-N are that build on Postgres, with N replicas.
func newServer(name, bin string, c *config) (*server, error) {
	s := &server{name: name, bin: bin, count: 1}
	switch name {
	case "etcd":
		s.program = &programs.Etcd
		s.args = etcdArgs
		s.note = "its default (--unsafe-no-fsync only while filling)"
	case "kine", kinePostgres, kinePooled:
		kine := programs.Kine("0.16")
		s.program = &kine
		s.oneKey = true
		s.args, s.note = kineArgs, "DSN with _synchronous=FULL (kine's own default is NORMAL, which does not sync "+
			"each commit)"
		if name != "kine" {
			s.args, s.note, s.onPostgres, s.lags = kinePostgresArgs(name == kinePooled), postgresNote, true, true
		}
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
		s.args = func(l launching) []string {
			return []string{
				"-serve-bare", "127.0.0.1:" + l.port, "-objects", fmt.Sprint(c.objects), "-value",
				fmt.Sprint(c.value),
			}
		}
	default:
		s.args, s.note = sqlstoreArgs, "its default (--unsafe-no-fsync only while filling)"
		build, n, postgres := strings.Cut(name, "-postgres")
		if build != "sqlstore" && bin == "" {
			return nil, fmt.Errorf("server %q needs a binary: %s=/path", name, name)
		}
		if postgres {
			s.onPostgres, s.note = true, postgresNote
		}
		if n != "" {
			var err error
			if s.count, err = strconv.Atoi(strings.TrimPrefix(n, "-")); err != nil || s.count < 1 {
				return nil, fmt.Errorf("server %q: %q is not a number of replicas", name, n)
			}
		}
	}
	return s, nil
}

const (
	// onPostgres followed by -N is sqlstore with N replicas.
	onPostgres = "sqlstore-postgres"
	// kine by default closes idle connections above 20, so that 64 clients keep it opening new ones; pooled, it is
	// configured to keep them.
	kinePostgres = "kine-postgres"
	kinePooled   = "kine-postgres-pooled"
	postgresNote = "Postgres with defaults: fsync, synchronous_commit and full_page_writes on (fsync off only " +
		"while filling)"
)

// prepare builds the server.
func (s *server) prepare(dir string) error {
	defer s.findObjects()
	if s.bin != "" {
		return nil
	}
	fmt.Fprintf(os.Stderr, "building %s\n", s.name)
	if s.program != nil {
		var err error
		s.bin, err = s.program.Build()
		return err
	}
	s.bin = filepath.Join(dir, "sqlstore.bin")
	if _, err := os.Stat(s.bin); err == nil {
		return nil // another of this run's servers is the same program
	}
	build := exec.Command("go", "build", "-C", "../..", "-o", s.bin, "./cmd/sqlstore")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", s.name, err, out)
	}
	return nil
}

func etcdArgs(l launching) []string {
	client, peer := "http://127.0.0.1:"+l.port, "http://127.0.0.1:"+freePort()
	a := []string{
		"--data-dir", l.dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--quota-backend-bytes", fmt.Sprint(8 << 30), "--log-level", "error",
	}
	if !l.durable {
		a = append(a, "--unsafe-no-fsync")
	}
	return append(append(a, l.compaction()...), l.authArgs()...)
}

// compaction are the flags that etcd and sqlstore share.
func (l launching) compaction() []string {
	if l.retention == 0 {
		return nil
	}
	return []string{"--auto-compaction-mode", "periodic", "--auto-compaction-retention", l.retention.String()}
}

func sqlstoreArgs(l launching) []string {
	client := "http://127.0.0.1:" + l.port
	a := []string{
		"serve", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-metrics-urls", "http://127.0.0.1:" + freePort(), "--log-level", "error",
	}
	if l.objects != "" {
		a = append(a, objectsFlag, "http://127.0.0.1:"+l.objects)
	}
	if l.dsn != "" {
		a = append(a, "--datastore", l.dsn, "--name", fmt.Sprintf("replica-%d", l.replica))
	} else {
		a = append(a, "--data-dir", l.dir, "--quota-backend-bytes", fmt.Sprint(8<<30))
	}
	if !l.durable {
		a = append(a, "--unsafe-no-fsync")
	}
	return append(append(a, l.compaction()...), l.authArgs()...)
}

func kineArgs(l launching) []string {
	sync := "FULL"
	if !l.durable {
		sync = "OFF"
	}
	// kine's own defaults for everything but synchronous.
	dsn := "sqlite://" + filepath.Join(l.dir, "state.db") +
		"?_journal_mode=WAL&_busy_timeout=30000&_synchronous=" + sync +
		"&_txlock=immediate&_stmt_cache_size=20&cache=shared"
	return []string{"--endpoint", dsn, "--listen-address", "127.0.0.1:" + l.port, "--metrics-bind-address", "0"}
}

// kinePoolSize is one connection per client, and fewer than Postgres allows.
const kinePoolSize = "64"

func kinePostgresArgs(pooled bool) func(launching) []string {
	return func(l launching) []string {
		a := []string{"--endpoint", l.dsn, "--listen-address", "127.0.0.1:" + l.port, "--metrics-bind-address", "0"}
		if pooled {
			a = append(a, "--datastore-max-open-connections", kinePoolSize, "--datastore-max-idle-connections",
				kinePoolSize)
		}
		return a
	}
}

// freePort returns a loopback port that nothing listens on, and that no outgoing connection takes in the meantime.
func freePort() string {
	addr, err := launch.FreeAddress()
	if err != nil {
		return "0"
	}
	_, port, _ := net.SplitHostPort(addr)
	return port
}
