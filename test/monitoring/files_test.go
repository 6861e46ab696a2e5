package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
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

// dashboard returns the expressions of dashboard.json, with a duration for Grafana's variable.
func dashboard(t *testing.T) (all []expression) {
	t.Helper()
	var file struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &file); err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, p := range file.Panels {
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			e := expression{where: p.Title, text: strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")}
			for _, m := range shown.FindAllStringSubmatch(target.LegendFormat, -1) {
				e.legend = append(e.legend, m[1])
			}
			all = append(all, e)
		}
	}
	return all
}

// variables returns the metrics in which the dashboard looks for the values of its variables.
func variables(t *testing.T) (all []expression) {
	t.Helper()
	var file struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Templating.List {
		if v.Definition != "" {
			all = append(all, expression{where: "the variable " + v.Name, text: v.Definition})
		}
	}
	return all
}
