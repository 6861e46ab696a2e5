package cluster

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/programs"
)

// StartControllerManager runs a kube-controller-manager with these flags on the cluster until the test ends, and waits
// until it serves. By default it has all its default controllers. It survives half a minute without the store; after
// that it loses its lease and exits, which fails the test.
func (c *Cluster) StartControllerManager(tb testing.TB, flags ...string) {
	tb.Helper()
	port := freePort(tb)
	manager := startProcess(tb, programs.ControllerManager.Path(tb), append([]string{
		"--kubeconfig=" + c.kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--leader-elect=true",
		"--leader-elect-lease-duration=60s",
		"--leader-elect-renew-deadline=40s",
		// Unlimited like the tests' own clients: otherwise it waits for its own limit, not for the store.
		"--kube-api-qps=1000",
		"--kube-api-burst=1000",
	}, flags...)...)
	client := &http.Client{
		Timeout: 10 * time.Second,
		// It creates its certificate in memory when it starts.
		//nolint:gosec // the loopback interface
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	waitReady(tb, manager, startTimeout,
		func() error { return ok(client.Get("https://127.0.0.1:" + port + "/healthz")) })
}
