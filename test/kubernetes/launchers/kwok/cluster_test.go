package kwok

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// cluster is a cluster of kwokctl's, with real programs of Kubernetes and simulated nodes.
type cluster struct {
	*testing.T
	dir  string
	etcd string // host:port
	client.WithWatch
}

// create creates a cluster whose etcd is the program at a path. It is deleted when the test ends.
func create(t *testing.T, etcd string) *cluster {
	t.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, dir: t.TempDir(), etcd: address}
	program := filepath.Join(c.dir, "etcd") // sqlstore goes by its name
	if err := os.Symlink(etcd, program); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kwokctl("delete", "cluster") })
	c.kwokctl("create", "cluster", "--runtime", "binary", "--wait", "5m", "--etcd-port", port,
		"--etcd-binary", program,
		"--kube-apiserver-binary", programs.APIServer.Path(t),
		"--kube-controller-manager-binary", programs.ControllerManager.Path(t),
		"--kube-scheduler-binary", programs.Scheduler.Path(t),
		"--kwok-controller-binary", programs.Kwok.Path(t))
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if c.WithWatch, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *cluster) kwokctl(args ...string) {
	c.Helper()
	cmd := exec.Command(programs.Kwokctl.Path(c.T), append([]string{"--name", "test"}, args...)...)
	cmd.Env = append(cmd.Environ(), "KWOK_WORKDIR="+c.dir, "KUBECONFIG="+c.kubeconfig(),
		"KWOK_KUBECTL_BINARY="+programs.Kubectl.Path(c.T))
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("kwokctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// scale brings the cluster to n nodes or pods, and returns when all are in the state that done checks.
func (c *cluster) scale(resource string, n int, list client.ObjectList, done func(client.Object) bool) {
	c.Helper()
	c.kwokctl("scale", resource, "--replicas", strconv.Itoa(n))
	c.await(n, list, done)
}

// await waits until exactly n objects exist, all of them done.
func (c *cluster) await(n int, list client.ObjectList, done func(client.Object) bool) {
	c.Helper()
	w, err := c.Watch(c.Context(), list) // from now, with an event for each object that exists
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	all, finished := map[string]bool{}, 0
	for e := range w.ResultChan() {
		o, ok := e.Object.(client.Object)
		if !ok {
			c.Fatalf("%s: %v", e.Type, e.Object)
		}
		if all[o.GetName()] {
			finished--
		}
		if all[o.GetName()] = done(o); all[o.GetName()] {
			finished++
		}
		if finished == n && len(all) == n {
			return
		}
	}
	c.Fatalf("the watch ended with %d of %d objects done, want %d", finished, len(all), n)
}

func nodeReady(o client.Object) bool {
	for _, condition := range o.(*corev1.Node).Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podRuns(o client.Object) bool { return o.(*corev1.Pod).Status.Phase == corev1.PodRunning }

// used returns the processor seconds and the resident memory of the store's process, in bytes.
func (c *cluster) used() (cpu, memory float64) {
	c.Helper()
	answer, err := http.Get("http://" + c.etcd + "/metrics")
	if err != nil {
		c.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		c.Fatal(err)
	}
	value := func(name string) float64 {
		metrics := families[name].GetMetric()
		if len(metrics) != 1 {
			c.Fatalf("%d metrics %s", len(metrics), name)
		}
		return metrics[0].GetCounter().GetValue() + metrics[0].GetGauge().GetValue()
	}
	return value("process_cpu_seconds_total"), value("process_resident_memory_bytes")
}

// size returns the size of the store's files in MiB.
func (c *cluster) size() string {
	c.Helper()
	var bytes int64
	if err := filepath.Walk(filepath.Join(c.dir, "clusters", "test", "etcd"),
		func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return err
		}); err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
