package monitoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
// alert must last before it fires is left to TestRules.
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

	want := map[string]bool{
		"SqlstoreNoSpace " + instance(full): true, "SqlstoreNearQuota " + instance(full): true,
		"SqlstoreDatabaseUnavailable " + instance(a): true, "SqlstoreDatabaseUnavailable " + instance(b): true,
		"SqlstoreDown " + instance(killed): true,
	}
	tick, end := time.NewTicker(200*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for {
		raised := raised(prometheus)
		missing := 0
		for w := range want {
			if !raised[w] {
				missing++
			}
		}
		if missing == 0 {
			for r := range raised {
				if strings.HasPrefix(r, "SqlstoreNotReady") {
					t.Errorf("%s is raised although its cause has an alert", r)
				}
			}
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("raised: %v, want %v", raised, want)
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

// raised returns the alerts that Prometheus knows, each with its instance; none while it starts.
func raised(url string) map[string]bool {
	resp, err := http.Get(url + "/api/v1/alerts")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct{ Labels map[string]string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil
	}
	all := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		all[a.Labels["alertname"]+" "+a.Labels["instance"]] = true
	}
	return all
}
