package gateway

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Dashboards and alert rules made for etcd must find what they query: its names, types and labels.
func TestSameMetrics(t *testing.T) {
	const flag = "--unsafe-no-fsync"
	etcd, target := servers.Etcd(t, flag), servers.Target(t, flag)
	work(t, etcd)
	work(t, target)
	want, got := metrics(t, etcd), metrics(t, target)
	for _, reason := range []string{"etcd_server_range_duration_seconds", "etcd_server_client_requests_total"} {
		if want[reason] == nil {
			t.Fatalf("etcd does not have %s", reason)
		}
	}
	excuses := notServed(t)
	for name, shape := range want {
		excused := slices.ContainsFunc(excuses, func(p string) bool {
			return name == p || strings.HasSuffix(p, "_") &&
				strings.HasPrefix(name, p)
		})
		switch served := got[name]; {
		case served == nil && !excused:
			t.Errorf("%s is not served, and no reason is listed", name)
		case served == nil:
		case excused && !servers.TargetIsEtcd():
			t.Errorf("%s is served and listed as not served", name)
		case !slices.Equal(served, shape):
			t.Errorf("%s: type and labels %q, want %q", name, served, shape)
		}
	}
}

// work makes the calls that make metrics appear.
func work(t *testing.T, s *launch.Server) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() error{
		func() error { _, err := c.Put(ctx, "k", "v", clientv3.WithLease(lease.ID)); return err },
		func() error { _, err := c.Get(ctx, "k"); return err },
		func() error { _, err := c.Txn(ctx).Then(clientv3.OpPut("k", "w")).Commit(); return err },
		func() error { _, err := c.KeepAliveOnce(ctx, lease.ID); return err },
		func() error { _, err := c.Delete(ctx, "k"); return err },
		func() error { _, err := c.Compact(ctx, 3, clientv3.WithCompactPhysical()); return err },
		func() error { _, err := c.HashKV(ctx, s.Endpoint(), 0); return err },
		func() error { _, err := c.Defragment(ctx, s.Endpoint()); return err },
		func() error { _, err := c.Revoke(ctx, lease.ID); return err },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	probe(t, s, http.MethodGet, "/readyz")
}

// metrics returns the type and the names of the labels of each of etcd's own metrics, and of the file descriptors'.
func metrics(t *testing.T, s *launch.Server) map[string][]string {
	t.Helper()
	out, name := map[string][]string{}, ""
	for line := range strings.Lines(probe(t, s, http.MethodGet, "/metrics")) {
		line = strings.TrimSpace(line)
		if declared, ok := strings.CutPrefix(line, "# TYPE "); ok {
			var kind string
			name, kind, _ = strings.Cut(declared, " ")
			if strings.HasPrefix(name, "etcd_") || strings.HasPrefix(name, "os_") {
				out[name] = []string{kind}
			}
			continue
		}
		if shape := out[name]; len(shape) == 1 && !strings.HasPrefix(line, "#") { // the first sample shows the labels
			out[name] = append(shape, labelNames(line)...)
		}
	}
	return out
}

// labelNames returns the names of a sample's labels except le. No value here contains a comma or a brace.
func labelNames(sample string) (names []string) {
	_, rest, _ := strings.Cut(sample, "{")
	list, _, ok := strings.Cut(rest, "}")
	if !ok {
		return nil
	}
	for label := range strings.SplitSeq(list, ",") {
		if name, _, _ := strings.Cut(label, "="); name != "le" {
			names = append(names, name)
		}
	}
	return names
}

// notServed reads the names, and prefixes of names, of metrics that are omitted for a reason.
func notServed(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../internal/telemetry/testdata/not-served.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}
