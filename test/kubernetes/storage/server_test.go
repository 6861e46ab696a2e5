package storage

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// progressInterval is what some tests expect of the server's periodic progress notifications.
const progressInterval = time.Second

// startTimeout limits the start of an etcd on a slow machine.
const startTimeout = time.Minute

// servers are the servers of a test run.
type servers struct {
	// endpoints are the servers that tests share; a client balances over all of them.
	endpoints []string
	// start starts additional servers, with their own data, and returns their endpoints. It is nil if that is
	// impossible.
	start func(testing.TB) []string
}

// newServers returns the servers that the environment names (see the package's doc), started if needed and stopped with
// tb.
func newServers(tb testing.TB) *servers {
	tb.Helper()
	switch target := env.Target.Text(); {
	case target == "" || target == "sqlstore":
	case target == "etcd":
		return &servers{endpoints: startEtcd(tb), start: startEtcd}
	case strings.Contains(target, ":"):
		return &servers{endpoints: strings.Split(target, ",")}
	default:
		tb.Fatalf("%s is %q, want sqlstore, etcd or endpoints", env.Target, target)
	}
	if datastore.FromEnv(tb).DSN != "" { // there is only this one database
		return &servers{endpoints: startSQLStore(tb)}
	}
	return &servers{endpoints: startSQLStore(tb), start: startSQLStore}
}

// startSQLStore starts the replicas that the environment asks for, over a database that is empty unless it names one.
func startSQLStore(tb testing.TB) []string {
	tb.Helper()
	return datastore.Endpoints(datastore.FromEnv(tb).Start(tb, launch.Config{
		Args: []string{"--watch-progress-notify-interval", progressInterval.String()},
	}))
}

// startEtcd runs etcd in this process, as Kubernetes' own tests do.
func startEtcd(tb testing.TB) []string {
	tb.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = tb.TempDir()
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = true
	cfg.WatchProgressNotifyInterval = progressInterval
	client, peer := freeURL(tb), freeURL(tb)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		tb.Fatalf("start etcd: %v", err)
	}
	tb.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		tb.Fatalf("start etcd: %v", err)
	case <-time.After(startTimeout):
		tb.Fatalf("etcd is not ready within %s", startTimeout)
	}
	return []string{client.Host}
}

// freeURL returns the URL of a loopback port that was free a moment ago.
func freeURL(tb testing.TB) url.URL {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}
