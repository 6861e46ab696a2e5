package cluster

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/build"
)

// ControllerManager is one running kube-controller-manager, with all its default controllers.
type ControllerManager struct{ process *process }

// StartControllerManager runs a kube-controller-manager on the cluster until the test ends, and waits
// until it serves. args are added behind its flags. It stays through an outage of the store of half a
// minute; in a longer one it loses its lease and ends, which fails the test.
func (c *Cluster) StartControllerManager(tb testing.TB, args ...string) *ControllerManager {
	tb.Helper()
	port := freePort(tb)
	m := &ControllerManager{process: startProcess(tb, build.ControllerManager.Path(tb), append([]string{
		"--kubeconfig=" + c.kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--leader-elect=true",
		"--leader-elect-lease-duration=60s",
		"--leader-elect-renew-deadline=40s",
		// Unlimited as the tests' own clients are: it waits for its own limit otherwise, not for the store.
		"--kube-api-qps=1000",
		"--kube-api-burst=1000",
	}, args...)...)}
	client := &http.Client{
		Timeout: 10 * time.Second,
		// Its certificate is made at its start, in memory.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // the loopback
	}
	waitReady(tb, m.process, startTimeout, func() error { return ok(client.Get("https://127.0.0.1:" + port + "/healthz")) })
	return m
}

// Kill ends it with SIGKILL: it does not give its lease back.
func (m *ControllerManager) Kill() { m.process.kill() }
