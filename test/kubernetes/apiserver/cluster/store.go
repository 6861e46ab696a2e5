package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// Store is the server, or the replicas, behind kube-apiserver's --etcd-servers.
type Store interface {
	// ClientURL returns the URL of the etcd API, or those of all replicas separated by commas.
	ClientURL() string
	// Kill ends the server with SIGKILL, as a crash would; of several replicas the next one in turn, while the others
	// continue.
	Kill()
	// Restart starts the killed server again on the same data and ports and waits until it is ready.
	Restart(tb testing.TB)
	// Compact drops the history below a revision.
	Compact(ctx context.Context, revision int64) error
	// Replicated reports whether others continue when one is killed.
	Replicated() bool
}

// StartStore starts the store that [env.Target] names, empty, until the test ends, with flags that both have.
// sqlstore runs over the datastore and with the replicas that package datastore reads from the environment.
func StartStore(tb testing.TB, flags ...string) Store {
	tb.Helper()
	switch target := env.Target.Text(); target {
	case "", "sqlstore":
		return &replicas{servers: datastore.FromEnv(tb).Start(tb, launch.Config{Args: flags})}
	case "etcd":
		return StartEtcd(tb, tb.TempDir(), flags...)
	default:
		tb.Fatalf("%s=%q: want sqlstore or etcd", env.Target, target)
		return nil
	}
}

// StartSQLStore starts a sqlstore with these flags until the test ends.
func StartSQLStore(tb testing.TB, flags ...string) Store {
	tb.Helper()
	return &replicas{servers: []*launch.Server{launch.Start(tb, launch.Config{Args: flags})}}
}

// StartSQLStoreAt is StartSQLStore at the URL of a store that has ended, whose clients go on.
func StartSQLStoreAt(tb testing.TB, url string, flags ...string) Store {
	tb.Helper()
	return &replicas{
		url: url,
		servers: []*launch.Server{launch.Start(tb, launch.Config{
			Args: append(flags, "--listen-client-urls="+url, "--advertise-client-urls="+url),
		})},
	}
}

// replicas are sqlstore servers over one datastore.
type replicas struct {
	servers []*launch.Server
	url     string // if it is not the servers' own
	killed  int    // index of the replica killed last, in turn
}

func (r *replicas) ClientURL() string {
	if r.url != "" {
		return r.url
	}
	urls := make([]string, len(r.servers))
	for i, s := range r.servers {
		urls[i] = s.ClientURL()
	}
	return strings.Join(urls, ",")
}

func (r *replicas) Kill() {
	r.killed = (r.killed + 1) % len(r.servers)
	r.servers[r.killed].Kill()
}

func (r *replicas) Restart(tb testing.TB) {
	tb.Helper()
	r.servers[r.killed].Restart(tb)
}

func (r *replicas) Compact(ctx context.Context, revision int64) error {
	return compact(ctx, r.servers[0].ClientURL(), revision)
}

func (r *replicas) Replicated() bool { return len(r.servers) > 1 }

// etcd is a stock etcd server.
type etcd struct {
	path, dir, url, peerURL string
	flags                   []string
	process                 *process
}

// StartEtcd starts an etcd on a directory until the test ends.
func StartEtcd(tb testing.TB, dir string, flags ...string) Store {
	tb.Helper()
	return StartEtcdAt(tb, "http://127.0.0.1:"+freePort(tb), dir, flags...)
}

// StartEtcdAt is StartEtcd at a URL, such as that of a store that has ended, whose clients go on.
func StartEtcdAt(tb testing.TB, url, dir string, flags ...string) Store {
	tb.Helper()
	e := &etcd{
		path:    programs.Etcd.Path(tb),
		flags:   flags,
		dir:     dir,
		url:     url,
		peerURL: "http://127.0.0.1:" + freePort(tb),
	}
	e.start(tb)
	return e
}

func (e *etcd) ClientURL() string { return e.url }

func (e *etcd) Compact(ctx context.Context, revision int64) error {
	return compact(ctx, e.url, revision)
}

func (e *etcd) Replicated() bool { return false }

func (e *etcd) Kill() { e.process.kill() }

func (e *etcd) Restart(tb testing.TB) {
	tb.Helper()
	e.start(tb)
}

func (e *etcd) start(tb testing.TB) {
	tb.Helper()
	e.process = startProcess(tb, e.path, append([]string{
		"--data-dir", e.dir,
		"--listen-client-urls", e.url, "--advertise-client-urls", e.url,
		"--listen-peer-urls", e.peerURL, "--initial-advertise-peer-urls", e.peerURL,
		"--initial-cluster", "default=" + e.peerURL,
	}, e.flags...)...)
	waitReady(tb, e.process, time.Minute, func() error { return ok(http.Get(e.url + "/readyz")) })
}

// compact asks for a compaction through the JSON gateway.
func compact(ctx context.Context, url string, revision int64) error {
	body := strings.NewReader(fmt.Sprintf(`{"revision":"%d"}`, revision))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/kv/compaction", body)
	if err != nil {
		return err
	}
	return ok(http.DefaultClient.Do(req))
}
