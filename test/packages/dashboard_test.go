package packages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/support/dashboard"
)

// absent are the panels that show nothing over a new server on SQLite, each with the reason.
var absent = map[string]string{
	"Replica lag":                 "a SQLite file has one server",
	"Connections to the database": "SQLite is a library",
	"Certificates expire in":      "the server has no certificate",
	"Not saved since":             "the server makes no backups",
	"Failed attempts to back up":  "the server makes no backups",
}

// By the pages alone, a machine gets a server and a Prometheus. The panels of the dashboard show data while the page's
// key is put and read, and no alert fires.
func TestDashboard(t *testing.T) {
	m := released(t, version)
	var monitors []pages.Block
	for _, p := range pages.All(t) {
		if p.Name != install {
			monitors = append(monitors, blocks(&p)...)
			continue
		}
		p.Text, _, _ = strings.Cut(p.Text, "\n## Upgrade and remove\n")
		m.follow(t, blocks(&p))
	}
	m.follow(t, monitors)
	prometheus := &dashboard.Prometheus{
		URL: "http://127.0.0.1:9090", Client: &http.Client{Transport: &http.Transport{DialContext: m.dial}},
	}
	prometheus.AwaitServers(t, 1)
	prometheus.Healthy(t, prometheus.Choose(t), absent, func() {
		m.run(t, "etcdctl", "put", "/config/pump-7", `{"speed": 3}`)
		m.run(t, "etcdctl", "get", "/config/pump-7")
	})
	if rules, err := prometheus.Rules(); err != nil || rules == 0 {
		t.Errorf("Prometheus has %d rules, %v", rules, err)
	}
	if fire, err := prometheus.Query(`ALERTS{alertstate="firing"}`); err != nil || len(fire) > 0 {
		t.Errorf("the alerts %v fire, %v", fire, err)
	}
}
