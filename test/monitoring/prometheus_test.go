package monitoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A real Prometheus notices faults of real servers, and names the cause rather than its effect. The time for which an
// alert must last before it fires is left to TestRules: one that is pending counts.
func TestFaults(t *testing.T) {
	pg := pgserver.Start(t, pgserver.Options{})
	datastore := []string{"--datastore", pg.DSN()}
	full := launch.Start(t, launch.Config{Args: []string{"--quota-backend-bytes", "8000000"}})
	a, b := launch.Start(t, launch.Config{Args: datastore}), launch.Start(t, launch.Config{Args: datastore})
	killed := launch.Start(t, launch.Config{})
	prometheus := start(t, full, a, b, killed)

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

// start runs a Prometheus with the rules over the servers, and returns its URL.
func start(t *testing.T, servers ...*launch.Server) string {
	t.Helper()
	var targets []string
	for _, s := range servers {
		targets = append(targets, instance(s))
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	type values = map[string]any
	config, err := yaml.Marshal(values{
		"global":     values{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{file(t, "rules.yaml")},
		"scrape_configs": []values{{
			"job_name": "sqlstore", "static_configs": []values{{"targets": targets}},
		}},
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
	return "http://" + address
}

// raised returns in how many evaluations each alert, with its instance, was raised; none while Prometheus starts.
func raised(address string) map[string]int {
	query := url.Values{"query": {"sum by (alertname, instance) (count_over_time(ALERTS[10m]))"}}
	resp, err := http.Get(address + "/api/v1/query?" + query.Encode())
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // the time, and the value as text
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil
	}
	all := map[string]int{}
	for _, r := range answer.Data.Result {
		all[r.Metric["alertname"]+" "+r.Metric["instance"]], _ = strconv.Atoi(fmt.Sprint(r.Value[1]))
	}
	return all
}
