package kubestorage

import (
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/sqlstore/sqlstore/test/launch"
)

// progressInterval is what some tests expect of the server's periodic progress notifications.
const progressInterval = time.Second

// startTimeout bounds the start of an etcd on a slow machine.
const startTimeout = time.Minute

// servers is what a run of the suite talks to.
type servers struct {
	// endpoints are the servers that tests share; a client balances over all of them.
	endpoints []string
	// start starts more servers, over data of their own, and returns their endpoints. It is nil
	// where that cannot be done.
	start func(testing.TB) []string
}

// newServers returns the servers that the environment names (see the package's doc), started if
// need be and stopped with tb.
func newServers(tb testing.TB) *servers {
	tb.Helper()
	if list := os.Getenv("SQLSTORE_TEST_ENDPOINT"); list != "" {
		return &servers{endpoints: strings.Split(list, ",")}
	}
	switch target := os.Getenv("SQLSTORE_TEST_TARGET"); target {
	case "", "sqlstore":
	case "etcd":
		return &servers{endpoints: startEtcd(tb), start: startEtcd}
	default:
		tb.Fatalf("SQLSTORE_TEST_TARGET is %q, want sqlstore or etcd", target)
	}
	if datastore := os.Getenv("SQLSTORE_TEST_DATASTORE"); datastore != "" {
		return &servers{endpoints: startReplicas(tb, datastore)}
	}
	return &servers{endpoints: startSQLite(tb), start: startSQLite}
}

func startSQLite(tb testing.TB) []string {
	tb.Helper()
	return []string{startSQLStore(tb).Endpoint()}
}

// startReplicas starts SQLSTORE_TEST_REPLICAS servers over one datastore.
func startReplicas(tb testing.TB, datastore string) []string {
	tb.Helper()
	replicas := 1
	if n := os.Getenv("SQLSTORE_TEST_REPLICAS"); n != "" {
		var err error
		if replicas, err = strconv.Atoi(n); err != nil || replicas < 1 {
			tb.Fatalf("SQLSTORE_TEST_REPLICAS is %q, want a number above 0", n)
		}
	}
	var endpoints []string
	for range replicas {
		endpoints = append(endpoints, startSQLStore(tb, "--datastore", datastore).Endpoint())
	}
	return endpoints
}

func startSQLStore(tb testing.TB, args ...string) *launch.Server {
	tb.Helper()
	args = append(args, "--watch-progress-notify-interval", progressInterval.String())
	return launch.Start(tb, launch.Config{Args: args})
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

// freeURL returns the URL of a loopback port that nobody listened on a moment ago.
func freeURL(tb testing.TB) url.URL {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}
