package monitoring

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/support/dashboard"
)

// A real Prometheus notices faults of real servers, and names the cause rather than its effect. The time for which an
// alert must last before it fires is left to TestRules: one that is pending counts.
func TestFaults(t *testing.T) {
	pg := pgserver.Start(t, pgserver.Options{})
	datastore := []string{"--datastore", pg.DSN()}
	full := launch.Start(t, launch.Config{Args: []string{"--quota-backend-bytes", "8000000"}})
	a, b := launch.Start(t, launch.Config{Args: datastore}), launch.Start(t, launch.Config{Args: datastore})
	killed := launch.Start(t, launch.Config{})
	prometheus := start(t, map[string]store{"full": {full}, "replicas": {a, b}, "killed": {killed}})

	fill(t, full)
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	killed.Kill()

	want := []string{
		"SqlstoreNoSpace " + instance(full), "SqlstoreNearQuota " + instance(full),
		"SqlstoreDatabaseUnavailable " + instance(a), "SqlstoreDatabaseUnavailable " + instance(b),
		"SqlstoreDown " + instance(killed),
	}
	const evaluations = 10
	tick, end := time.NewTicker(200*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for {
		raised := raised(prometheus)
		for alert := range raised {
			if strings.HasPrefix(alert, "SqlstoreNotReady") {
				t.Fatalf("%s is raised although its cause has an alert", alert)
			}
		}
		if !slices.ContainsFunc(want, func(alert string) bool { return raised[alert] < evaluations }) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("raised: %v, want each of %q in %d evaluations", raised, want, evaluations)
		}
	}
}

// instance returns the label that Prometheus gives to a server.
func instance(s *launch.Server) string { return strings.TrimPrefix(s.MetricsURL(), "http://") }

// fill puts until the quota is used up.
func fill(t *testing.T, server *launch.Server) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for value := strings.Repeat("v", 100_000); !errors.Is(err, rpctypes.ErrNoSpace); {
		if _, err = client.Put(t.Context(), "k", value); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
	}
}

// store are the servers of one database.
type store []*launch.Server

// instances returns the labels that Prometheus gives to the servers.
func (s store) instances() (all []string) {
	for _, server := range s {
		all = append(all, instance(server))
	}
	return all
}

// start runs a Prometheus with the rules over the stores. The name of each is its label cluster.
func start(t *testing.T, stores map[string]store) *dashboard.Prometheus {
	t.Helper()
	type values = map[string]any
	var targets []values
	for name, s := range stores {
		targets = append(targets, values{"targets": s.instances(), "labels": values{"cluster": name}})
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(values{
		"global":         values{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{file(t, "rules.yaml")},
		"scrape_configs": []values{{"job_name": "sqlstore", "static_configs": targets}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file", path, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install the package prometheus", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus:\n%s", log.String())
		}
	})
	return &dashboard.Prometheus{URL: "http://" + address, Client: http.DefaultClient}
}

// raised returns in how many evaluations each alert, with its instance, was raised; none while Prometheus starts.
func raised(prometheus *dashboard.Prometheus) map[string]int {
	counts, _ := prometheus.Query("sum by (alertname, instance) (count_over_time(ALERTS[10m]))")
	all := map[string]int{}
	for _, c := range counts {
		all[c.Labels["alertname"]+" "+c.Labels["instance"]] = int(c.Value)
	}
	return all
}
