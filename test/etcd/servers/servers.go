// Package servers starts the servers that the tests of this module talk to: a real etcd, and the
// target that is held against it.
//
// The target is sqlstore. With SQLSTORE_TEST_TARGET=etcd it is a second etcd, which shows whether a
// test asks for more than etcd itself keeps.
//
// etcd and its tools are built from the versions that this module's go.mod names, once for all
// test processes, by the go command's own cache.
package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/test/launch"
)

// Etcd starts an etcd of a single member with the given flags behind the usual ones.
func Etcd(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	return launch.Start(tb, EtcdConfig(tb, "", args...))
}

// EtcdConfig returns the configuration to launch an etcd on dir ("" is a fresh directory), for
// instance one that a snapshot was restored into.
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

// TargetIsEtcd says whether the target is a second etcd rather than sqlstore.
func TargetIsEtcd() bool { return os.Getenv("SQLSTORE_TEST_TARGET") == "etcd" }

// Target starts the server under test with the given flags, which both etcd and sqlstore must know.
func Target(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	return launch.Start(tb, TargetConfig(tb, args...))
}

// TargetConfig returns the configuration of the server under test, to be changed and launched.
func TargetConfig(tb testing.TB, args ...string) launch.Config {
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
	cmd := exec.Command("go", "tool", "-n", name) // builds it, unless the cache has it
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
