// Package cluster runs a stock kube-apiserver on a store for tests, with clients and kubectl for it.
//
//	store := cluster.StartStore(t)
//	c := cluster.Start(t, store, cluster.Config{WatchCache: true})
//	c.Dynamic.Resource(...)
//	c.Kubectl(t, nil, "get", "pods", "-A")
//	store.Kill(); store.Restart(t) // kube-apiserver recovers
package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sqlstore/sqlstore/test/programs"
)

// startTimeout limits the start of a kube-apiserver: 10 s on an idle machine with two cores.
const startTimeout = 3 * time.Minute

// Config configures a kube-apiserver.
type Config struct {
	// WatchCache serves reads and watches from kube-apiserver's memory, the default; without it every request reaches
	// the store.
	WatchCache bool
	// Args follow the flags that Start sets, and so take precedence. Among them must be --etcd-servers if Start gets no
	// store.
	Args []string
}

// Cluster is a running kube-apiserver. Its clients have no rate limit.
type Cluster struct {
	// REST is the configuration of the clients, for tests that make their own.
	REST    *rest.Config
	Dynamic dynamic.Interface
	Clients kubernetes.Interface
	// HTTP has the same authorization as the other clients, for plain requests to REST.Host: client-go neither checks
	// them nor interprets the answers.
	HTTP *http.Client
	// WatchCache is the Config's.
	WatchCache bool

	args       []string
	process    *process
	kubeconfig string
}

// Start runs a kube-apiserver on the store until the test ends, and waits until it is ready. The store is nil if the
// Config's Args name it: kube-apiserver would add its servers to those.
func Start(tb testing.TB, store Store, cfg Config) *Cluster {
	tb.Helper()
	creds := newCredentials(tb)
	port := freePort(tb)
	args := append([]string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		// For documentation (RFC 5737): Endpoints must not contain a loopback address, and no client connects to this
		// one.
		"--advertise-address=192.0.2.1",
		"--cert-dir=" + creds.dir,
		"--token-auth-file=" + creds.tokenFile,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + creds.keyFile,
		"--service-account-signing-key-file=" + creds.keyFile,
		"--service-cluster-ip-range=10.0.0.0/16",
		// Nothing creates service accounts here, and pods would wait for theirs.
		"--disable-admission-plugins=ServiceAccount",
		fmt.Sprintf("--watch-cache=%t", cfg.WatchCache),
	}, cfg.Args...)
	if store != nil {
		args = append(args, "--etcd-servers="+store.ClientURL())
	}

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
	c.process = startProcess(tb, programs.APIServer.Path(tb), c.args...)
	waitReady(tb, c.process, startTimeout, c.ready)
}

// Kill ends the kube-apiserver with SIGKILL.
func (c *Cluster) Kill() { c.process.kill() }

// Restart starts the killed kube-apiserver again, at the same address and with the same credentials, and waits until it
// is ready. Its clients continue.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	c.start(tb)
}

// RestartOn is Restart on another store.
func (c *Cluster) RestartOn(tb testing.TB, store Store) {
	tb.Helper()
	for i, arg := range c.args {
		if strings.HasPrefix(arg, "--etcd-servers=") {
			c.args[i] = "--etcd-servers=" + store.ClientURL()
		}
	}
	c.start(tb)
}

// Pause stops the kube-apiserver where it is, with its connections and its memory. It keeps the store from getting
// requests.
func (c *Cluster) Pause() error { return c.process.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets the kube-apiserver go on, and waits until it is ready.
func (c *Cluster) Resume(ctx context.Context) error {
	if err := c.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return c.Await(ctx, true)
}

// PID returns the process id of the kube-apiserver.
func (c *Cluster) PID() int { return c.process.cmd.Process.Pid }

// Await waits until kube-apiserver reports that it is ready or, if ready is false, that it is not, for example because
// its store has been away for some seconds.
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

// ready asks the kube-apiserver whether it is ready. It reads the certificate each time, because a new kube-apiserver
// writes it late.
func (c *Cluster) ready() error {
	client, err := rest.HTTPClientFor(c.REST)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	client.Timeout = 10 * time.Second
	return ok(client.Get(c.REST.Host + "/readyz"))
}
