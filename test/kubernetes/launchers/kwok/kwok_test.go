package kwok

import (
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// TestScale scales clusters on sqlstore and on etcd, in turns, until all nodes are ready and all pods run, and logs how
// long that took and what the store used. Then it stops and starts the cluster: everything is still there.
func TestScale(t *testing.T) {
	nodes, pairs := env.Length.Count(t, 100), 1
	pods := 5 * nodes
	if env.Whole.Text() != "" {
		pairs = 2
	}
	stores := []struct {
		name, path string
	}{{"sqlstore", launch.Binary(t)}, {"etcd", programs.Etcd.Path(t)}}
	for pair := range pairs {
		if pair > 0 { // backwards, so that what changes on the machine affects both
			stores[0], stores[1] = stores[1], stores[0]
		}
		for _, store := range stores {
			t.Run(store.name, func(t *testing.T) {
				began := time.Now()
				c := create(t, store.path)
				created := time.Since(began)
				if store.name == "sqlstore" {
					c.isSQLstore()
				}
				began = time.Now()
				c.scale("node", nodes, &corev1.NodeList{}, nodeReady)
				ready := time.Since(began)
				began = time.Now()
				c.scale("pod", pods, &corev1.PodList{}, podRuns)
				running := time.Since(began)
				cpu, memory := c.used()
				t.Logf("%s: created in %.1f s, %d nodes ready in %.1f s, %d pods running in %.1f s; the store used "+
					"%.1f s of CPU and has %.0f MiB in memory, %s in files", store.name, created.Seconds(), nodes,
					ready.Seconds(), pods, running.Seconds(), cpu, memory/(1<<20), c.size())

				c.kwokctl("stop", "cluster")
				c.kwokctl("start", "cluster", "--wait", "5m")
				c.await(nodes, &corev1.NodeList{}, nodeReady)
				c.await(pods, &corev1.PodList{}, podRuns)
			})
		}
	}
}

func (c *cluster) isSQLstore() {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "clusters", "test", "etcd", "*.db"))
	if err != nil || len(files) == 0 {
		c.Fatalf("no database of sqlstore: %v", err)
	}
}
