// Package servers starts the servers that etcd's suite talks to: a real etcd, and the target that is
// compared with it.
//
// The target is sqlstore, over the database and with the replicas that package datastore reads from the environment.
// With SQLSTORE_TEST_TARGET=etcd it is a second etcd with as many members, which shows whether a test demands more than
// etcd itself does.
//
// etcd and its tools are built from the versions that this module's go.mod names, once for all test processes, thanks
// to the go command's cache.
package servers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// Etcd starts an etcd of a single member with the given flags after the usual ones.
func Etcd(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	return launch.Start(tb, EtcdConfig(tb, "", args...))
}

// EtcdConfig returns the configuration to launch an etcd on dir, for instance with a restored snapshot; "" is a new
// directory.
func EtcdConfig(tb testing.TB, dir string, args ...string) launch.Config {
	tb.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	peer := "http://" + address
	return launch.Config{
		DataDir: dir,
		Command: []string{Tool(tb, "server")},
		Args: append([]string{
			"--name", "default", "--log-level", "error",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", "default=" + peer,
		}, args...),
	}
}

// TargetIsEtcd reports whether the target is a second etcd rather than sqlstore.
func TargetIsEtcd() bool { return env.Target.Text() == "etcd" }

// Targets starts the servers under test, each with the given flags, which both etcd and sqlstore must know. They share
// their data, so that a request may go to any of them.
func Targets(tb testing.TB, args ...string) []*launch.Server {
	tb.Helper()
	return start(tb, datastore.FromEnv(tb), args)
}

// Target starts the servers like Targets and returns the first.
func Target(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	return Targets(tb, args...)[0]
}

// TargetWith is OnlyTarget with a configuration, of which it uses all but the datastore: the arguments, the log and
// whether the server may exit.
func TargetWith(tb testing.TB, cfg launch.Config) *launch.Server {
	tb.Helper()
	if TargetIsEtcd() {
		etcd := EtcdConfig(tb, "", cfg.Args...)
		etcd.Log, etcd.MayEnd = cfg.Log, cfg.MayEnd
		return launch.Start(tb, etcd)
	}
	choice := datastore.FromEnv(tb)
	choice.Replicas = 1
	return choice.Start(tb, cfg)[0]
}

// OnlyTarget is Target without replicas, for tests of single-member clusters.
func OnlyTarget(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	choice := datastore.FromEnv(tb)
	choice.Replicas = 1
	return start(tb, choice, args)[0]
}

// Replicas starts several servers under test, over Postgres regardless of the environment.
func Replicas(tb testing.TB, n int, args ...string) []*launch.Server {
	tb.Helper()
	choice := datastore.FromEnv(tb)
	choice.Postgres, choice.Replicas = true, n
	return start(tb, choice, args)
}

func start(tb testing.TB, choice datastore.Choice, args []string) []*launch.Server {
	tb.Helper()
	switch {
	case choice.DSN != "":
		tb.Fatalf("each test needs an empty database: set %s=postgres, and SQLSTORE_TEST_POSTGRES to the DSN "+
			"of a server", env.Datastore)
	case TargetIsEtcd():
		return EtcdCluster(tb, choice.Replicas, args...)
	}
	return choice.Start(tb, launch.Config{Args: args})
}

// FileTargetConfig returns the configuration of a server under test on a new directory, to be changed and launched:
// sqlstore on SQLite regardless of the environment, or etcd.
func FileTargetConfig(tb testing.TB, args ...string) launch.Config {
	tb.Helper()
	if TargetIsEtcd() {
		return EtcdConfig(tb, "", args...)
	}
	return launch.Config{Args: args}
}

var tools sync.Map // name -> func() (string, error), each running once

// Tool returns the path of one of the programs that go.mod names as a tool: "server" (etcd itself),
// "etcdctl" or "etcdutl".
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	find, _ := tools.LoadOrStore(name, sync.OnceValues(func() (string, error) { return findTool(name) }))
	path, err := find.(func() (string, error))()
	if err != nil {
		tb.Fatalf("servers: %v", err)
	}
	return path
}

func findTool(name string) (string, error) {
	var stderr strings.Builder
	cmd := exec.Command("go", "tool", "-n", name) // builds it unless it is cached
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, stderr.String())
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("build %s: unexpected path %q", name, path)
	}
	return path, nil
}
