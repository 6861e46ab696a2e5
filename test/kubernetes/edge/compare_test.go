package edge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/programs"
)

// measured is what a run used.
type measured struct {
	ready, pod time.Duration // since the start, until the control plane and the first Pod are ready
	memory     float64       // resident, of all processes but kwok, in MiB
}

// TestCompare logs the size of the programs, the memory and the time to the first ready Pod, of the control plane on
// sqlstore and on an etcd beside it, which take turns.
func TestCompare(t *testing.T) {
	order, rest := []string{"sqlstore", "etcd"}, time.Duration(0)
	if env.Whole.Text() != "" {
		order = slices.Repeat([]string{"sqlstore", "etcd", "etcd", "sqlstore"}, 2)
		rest = 20 * time.Second
	}
	etcd := programs.Etcd.Path(t)
	t.Logf("program: %.1f MiB, and etcd %.1f MiB", mebibytes(t, binary(t)), mebibytes(t, etcd))
	all := map[string][]measured{}
	for i, store := range order {
		t.Run(fmt.Sprint(i+1, " ", store), func(t *testing.T) {
			m := measure(t, store == "etcd", rest)
			all[store] = append(all[store], m)
			t.Logf("%s: control plane ready after %.2f s, first Pod after %.2f s, %.0f MiB", store, m.ready.Seconds(),
				m.pod.Seconds(), m.memory)
		})
	}
	for _, store := range order[:2] {
		t.Logf("%-8s  median: control plane ready after %.2f s, first Pod after %.2f s, %.0f MiB", store,
			median(all[store], func(m measured) float64 { return m.ready.Seconds() }),
			median(all[store], func(m measured) float64 { return m.pod.Seconds() }),
			median(all[store], func(m measured) float64 { return m.memory }))
	}
}

// measure runs the control plane once.
func measure(t *testing.T, onEtcd bool, rest time.Duration) (m measured) {
	programs.Kwok.Path(t)
	programs.Kubectl.Path(t)
	binary(t)
	began := time.Now()
	var flags []string
	if onEtcd {
		flags = append(flags, "--etcd-servers", cluster.StartEtcd(t, t.TempDir()).ClientURL())
	}
	p := newPlane(t, flags...)
	p.start()
	m.ready = time.Since(began)
	p.kwok()
	p.demo()
	clients := p.clients()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			d, err := clients.AppsV1().Deployments("default").Get(ctx, "hello", metav1.GetOptions{})
			return err == nil && d.Status.ReadyReplicas > 0, err
		})
	if err != nil {
		t.Fatal(err)
	}
	m.pod = time.Since(began)
	awaitPods(t, clients, 10)
	<-time.After(rest) // the memory of a program that has just started says little about later
	m.memory = p.resident()
	if onEtcd {
		m.memory += residentOf(t, flags[1])
	}
	return m
}

// resident returns the memory of the control plane's process in MiB.
func (p *plane) resident() float64 {
	p.Helper()
	body, err := p.clients().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return residentMetric(p, bytes.NewReader(body))
}

// residentOf returns the memory of the store at a URL in MiB.
func residentOf(tb testing.TB, url string) float64 {
	tb.Helper()
	answer, err := http.Get(url + "/metrics")
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	return residentMetric(tb, answer.Body)
}

func residentMetric(tb testing.TB, r io.Reader) float64 {
	tb.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		tb.Fatal(err)
	}
	metrics := families["process_resident_memory_bytes"].GetMetric()
	if len(metrics) != 1 {
		tb.Fatalf("%d metrics process_resident_memory_bytes", len(metrics))
	}
	return metrics[0].GetGauge().GetValue() / (1 << 20)
}

// mebibytes returns the size of a file.
func mebibytes(tb testing.TB, path string) float64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return float64(info.Size()) / (1 << 20)
}

// median returns the median of a figure.
func median(all []measured, figure func(measured) float64) float64 {
	var sorted []float64
	for _, m := range all {
		sorted = append(sorted, figure(m))
	}
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return 0 // its runs failed
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
