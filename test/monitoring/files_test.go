package monitoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/support/dashboard"
)

// expression is one of PromQL.
type expression struct {
	where, text string
	// legend are labels that the name of a line on the dashboard shows.
	legend []string
	// record is the metric that a rule makes of it, "" for others.
	record string
}

// file returns the path of a file of deploy/monitoring.
func file(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(pages.Root(t), "deploy", "monitoring", name)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(file(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// rules returns the expressions of rules.yaml.
func rules(t *testing.T) (all []expression) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(read(t, "rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all = append(all, expression{where: r.Alert + r.Record, text: r.Expr, record: r.Record})
		}
	}
	return all
}

// panels returns the expressions of the dashboard, with a duration for Grafana's variable.
func panels(t *testing.T) (all []expression) {
	t.Helper()
	for _, target := range dashboard.Targets(t) {
		text := strings.ReplaceAll(target.Expr, "$__rate_interval", dashboard.RateInterval)
		all = append(all, expression{where: target.Panel, text: text, legend: target.Legend})
	}
	return all
}

// variables returns the metrics in which the dashboard looks for the values of its variables.
func variables(t *testing.T) (all []expression) {
	t.Helper()
	for _, v := range dashboard.Variables(t) {
		all = append(all, expression{where: "the variable " + v.Name, text: v.Query})
	}
	return all
}
