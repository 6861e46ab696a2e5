package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// Version is a version of kine that the tests build.
type Version struct {
	Name string
	// Compacts is set if kine compacts when a client asks it to, and not by itself.
	Compacts bool
	args     []string
}

// Versions are the newest kine and, last, the oldest one that is supported.
var Versions = []Version{
	{
		Name: "0.17", Compacts: true,
		args: []string{"--compact-interval", "0", "--compact-min-retain", "0"},
	},
	{Name: "0.11"},
}

// Kine is a running kine.
type Kine struct {
	Client *clientv3.Client
	*process
}

// Program builds a version, once per test process, and returns its path.
func (v *Version) Program(tb testing.TB) string {
	tb.Helper()
	return programs.Kine(v.Name).Path(tb)
}

// Start runs kine on a database, which it names in its own way, and waits until it answers.
func (v *Version) Start(tb testing.TB, endpoint string) *Kine {
	tb.Helper()
	program := v.Program(tb)
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	args := append([]string{
		"--endpoint", endpoint, "--listen-address", address, "--metrics-bind-address", "0",
	}, v.args...)
	k := &Kine{process: run(tb, nil, program, args...)}
	k.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = k.Client.Close() })
	k.await(tb, time.Minute, func() error {
		ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
		defer cancel()
		resp, err := k.Client.Get(ctx, "/registry/health")
		if err == nil && len(resp.Kvs) == 0 { // kine writes it at its start
			err = fmt.Errorf("no /registry/health")
		}
		return err
	})
	return k
}

// Stop ends kine, so that its database does not change.
func (k *Kine) Stop(tb testing.TB) {
	tb.Helper()
	_ = k.Client.Close()
	k.stop(tb)
}
