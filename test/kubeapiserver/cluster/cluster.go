// Package cluster runs a stock kube-apiserver on a store for tests, with clients and kubectl for it.
//
//	store := cluster.StartStore(t)
//	c := cluster.Start(t, store, cluster.Config{WatchCache: true})
//	c.Dynamic.Resource(...)
//	c.Kubectl(t, nil, "get", "pods", "-A")
//	store.Kill(); store.Restart(t) // kube-apiserver goes on by itself
package cluster

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/build"
)

// startTimeout bounds the start of a kube-apiserver: 10 s on an idle machine of two cores.
const startTimeout = 3 * time.Minute

// Config says how to run a kube-apiserver.
type Config struct {
	// WatchCache answers reads and watches from kube-apiserver's memory, its default; without it
	// every request reaches the store.
	WatchCache bool
	// Args are flags added behind those that Start sets, so that they win over them.
	Args []string
}

// Cluster is one running kube-apiserver. Its clients are not limited in requests per second.
type Cluster struct {
	// REST is what the clients were made from, for tests that make their own.
	REST    *rest.Config
	Dynamic dynamic.Interface
	Clients kubernetes.Interface
	// HTTP is authorized as the other clients are, for requests to REST.Host as they are: client-go
	// neither checks them nor interprets the answers.
	HTTP *http.Client
	// WatchCache is the Config's.
	WatchCache bool

	args       []string
	process    *process
	kubeconfig string
}

// Start runs a kube-apiserver on the store until the test ends, and waits until it is ready.
func Start(tb testing.TB, store Store, cfg Config) *Cluster {
	tb.Helper()
	creds := newCredentials(tb)
	port := freePort(tb)
	args := append([]string{
		"--etcd-servers=" + store.ClientURL(),
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		// For documentation (RFC 5737): Endpoints may not hold a loopback address, and nobody connects.
		"--advertise-address=192.0.2.1",
		"--cert-dir=" + creds.dir,
		"--token-auth-file=" + creds.tokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + creds.keyFile,
		"--service-account-signing-key-file=" + creds.keyFile,
		"--service-cluster-ip-range=10.0.0.0/16",
		// Nobody makes service accounts here, and pods would wait for theirs.
		"--disable-admission-plugins=ServiceAccount",
		fmt.Sprintf("--watch-cache=%t", cfg.WatchCache),
	}, cfg.Args...)

	c := &Cluster{
		REST: &rest.Config{
			Host:            "https://127.0.0.1:" + port,
			BearerToken:     creds.token,
			TLSClientConfig: rest.TLSClientConfig{CAFile: creds.certificate()},
			QPS:             -1,
			UserAgent:       "sqlstore-test",
			WarningHandler:  rest.NoWarnings{},
		},
		WatchCache: cfg.WatchCache,
		args:       args,
	}
	c.start(tb)

	var err error
	if c.Dynamic, err = dynamic.NewForConfig(c.REST); err != nil {
		tb.Fatal(err)
	}
	if c.Clients, err = kubernetes.NewForConfig(c.REST); err != nil {
		tb.Fatal(err)
	}
	if c.HTTP, err = rest.HTTPClientFor(c.REST); err != nil {
		tb.Fatal(err)
	}
	c.kubeconfig = writeKubeconfig(tb, c.REST)
	return c
}

func (c *Cluster) start(tb testing.TB) {
	tb.Helper()
	c.process = startProcess(tb, build.APIServer.Path(tb), c.args...)
	waitReady(tb, c.process, startTimeout, c.ready)
}

// Kill ends the kube-apiserver with SIGKILL.
func (c *Cluster) Kill() { c.process.kill() }

// Restart starts the killed kube-apiserver again, at the same address and with the same credentials,
// and waits until it is ready. Its clients go on.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	c.start(tb)
}

// PID returns the process id of the kube-apiserver.
func (c *Cluster) PID() int { return c.process.cmd.Process.Pid }

// Await waits until kube-apiserver says that it is ready, or that it is not, as when its store has
// been away for some seconds.
func (c *Cluster) Await(ctx context.Context, ready bool) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
		func(context.Context) (bool, error) {
			last = c.ready()
			return (last == nil) == ready, nil
		})
	if err != nil {
		//nolint:errorlint // last may be nil
		return fmt.Errorf("wait until kube-apiserver's readiness is %t: %w (last: %v)", ready, err, last)
	}
	return nil
}

// ready asks the kube-apiserver whether it is ready. The certificate is read anew, as a
// kube-apiserver that has just started writes it late.
func (c *Cluster) ready() error {
	client, err := rest.HTTPClientFor(c.REST)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	client.Timeout = 10 * time.Second
	return ok(client.Get(c.REST.Host + "/readyz"))
}
