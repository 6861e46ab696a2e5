package servers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// EtcdCluster starts an etcd cluster of n members, each with the given flags after the usual ones, and waits until all
// are ready.
func EtcdCluster(tb testing.TB, members int, args ...string) []*launch.Server {
	tb.Helper()
	if members == 1 {
		return []*launch.Server{Etcd(tb, args...)}
	}
	peers, cluster := make([]string, members), make([]string, members)
	for i := range peers {
		address, err := launch.FreeAddress()
		if err != nil {
			tb.Fatal(err)
		}
		peers[i] = "http://" + address
		cluster[i] = fmt.Sprintf("replica-%d=%s", i+1, peers[i])
	}
	path := Tool(tb, "server")
	started, errs := make([]*launch.Server, members), make([]error, members)
	var wg sync.WaitGroup
	for i, peer := range peers {
		wg.Go(func() { // a member becomes ready only once most of the others are
			started[i], errs[i] = launch.TryStart(tb, launch.Config{
				Command: []string{path},
				Args: append([]string{
					"--name", fmt.Sprintf("replica-%d", i+1), "--log-level", "error",
					"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
					"--initial-cluster", strings.Join(cluster, ","),
				}, args...),
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			tb.Fatalf("servers: %v", err)
		}
	}
	return started
}
