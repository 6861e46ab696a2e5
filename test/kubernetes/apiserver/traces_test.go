package apiserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/traces/collector"
)

// traceTimeout limits the wait for the spans of a request: both processes send theirs every 100 ms.
const traceTimeout = time.Minute

// One trace goes from a request of kube-apiserver through its call of the store to the commit in the database. Under
// etcd, which has no spans of its storage, it goes to the call.
func TestTraceFromKubernetes(t *testing.T) {
	innermost := "COMMIT"
	if env.Target.Text() == "etcd" {
		innermost = "etcdserverpb.KV/Txn"
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // ms
	to := collector.Start(t)
	store := cluster.StartStore(t, "--enable-distributed-tracing", "--distributed-tracing-address", to.Address)
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	config := "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: " + to.Address +
		"\nsamplingRatePerMillion: 1000000\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, store, cluster.Config{WatchCache: true, Args: []string{"--tracing-config-file=" + file}})
	for i := range 5 { // the commit of one may be in the trace of another request of the same batch
		_, err := c.Clients.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("traced-", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	late := time.After(traceTimeout)
	for {
		path := ofCreate(to.Spans(), innermost)
		if path != nil {
			t.Logf("from the database to kube-apiserver: %s", strings.Join(path, " < "))
			return
		}
		select {
		case <-to.Arrived:
		case <-late:
			t.Fatalf("no trace of the request has a span %q; %d spans", innermost, len(to.Spans()))
		}
	}
}

// ofCreate returns the spans from an innermost one up to kube-apiserver's request that creates the object, nil if there
// is no such trace. A COMMIT must be in a batch.
func ofCreate(spans []collector.Span, innermost string) []string {
	byID := map[string]collector.Span{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	for _, s := range spans {
		if s.Name != innermost {
			continue
		}
		var path []string
		batch := innermost != "COMMIT"
		for at, ok := s, true; ok; at, ok = byID[at.Parent] {
			path = append(path, at.Service+": "+at.Name)
			batch = batch || at.Name == "batch" && at.Attributes["sqlstore.revision"] != "" &&
				at.Attributes["sqlstore.batch.size"] != "" && at.Attributes["sqlstore.rows"] != ""
			if batch && at.Trace == s.Trace && at.Service == "apiserver" && creates(at) {
				return path
			}
		}
	}
	return nil
}

// creates reports whether a span is that of a request to create a ConfigMap.
func creates(s collector.Span) bool {
	const path = "/api/v1/namespaces/default/configmaps"
	for _, value := range s.Attributes {
		if value == path || strings.HasPrefix(value, path+"?") || strings.HasSuffix(value, path) {
			return s.Kind == "Server"
		}
	}
	return false
}
