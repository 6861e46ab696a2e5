// Package dashboard asks a Prometheus for what deploy/monitoring/dashboard.json shows, as Grafana does.
package dashboard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// RateInterval replaces Grafana's variable: four times the scrape interval of 15 s that a data source has by default.
const RateInterval = "1m"

// faults are the panels that show nothing while nothing is wrong.
var faults = []string{"Conditions that are not as they should be", "gRPC errors"}

// Target is one expression of a panel.
type Target struct {
	Panel string
	// Expr is in PromQL, but has Grafana's variables.
	Expr string
	// Legend are the labels in the names of the lines.
	Legend []string
}

// Fault reports whether the target shows nothing while nothing is wrong.
func (t *Target) Fault() bool { return slices.Contains(faults, t.Panel) }

// Variable is one whose values Grafana asks Prometheus for.
type Variable struct{ Name, Query string }

var (
	shown     = regexp.MustCompile(`\{\{(\w+)\}\}`)
	reference = regexp.MustCompile(`\$(\w+)`)
	values    = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

func parse(tb testing.TB, into any) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(pages.Root(tb), "deploy", "monitoring", "dashboard.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatal(err)
	}
}

// Targets returns those of every panel.
func Targets(tb testing.TB) (all []Target) {
	tb.Helper()
	var file struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	parse(tb, &file)
	for _, p := range file.Panels {
		if len(p.Targets) == 0 && p.Type != "row" {
			tb.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			t := Target{Panel: p.Title, Expr: target.Expr}
			for _, m := range shown.FindAllStringSubmatch(target.LegendFormat, -1) {
				t.Legend = append(t.Legend, m[1])
			}
			all = append(all, t)
		}
	}
	for _, panel := range faults {
		if !slices.ContainsFunc(all, func(t Target) bool { return t.Panel == panel }) {
			tb.Errorf("there is no panel %q", panel)
		}
	}
	return all
}

// Variables returns those that the dashboard asks for, in order: a later one may refer to an earlier one.
func Variables(tb testing.TB) (all []Variable) {
	tb.Helper()
	var file struct {
		Templating struct {
			List []struct {
				Name, Type, Definition string
				Query                  json.RawMessage
			}
		}
	}
	parse(tb, &file)
	for _, v := range file.Templating.List {
		if v.Type != "query" {
			continue
		}
		var asked struct{ Query string }
		if err := json.Unmarshal(v.Query, &asked); err != nil {
			tb.Fatal(err)
		}
		if !values.MatchString(asked.Query) || asked.Query != v.Definition {
			tb.Errorf("the variable %s asks for %q, but is shown as %q", v.Name, asked.Query, v.Definition)
		}
		all = append(all, Variable{v.Name, asked.Query})
	}
	return all
}

// Choice has the chosen values of the variables.
type Choice map[string][]string

// Expand replaces the variables of an expression. Grafana escapes the values for a regular expression in a string.
func (c Choice) Expand(tb testing.TB, expr string) string {
	tb.Helper()
	return reference.ReplaceAllStringFunc(expr, func(name string) string {
		name = name[1:]
		if name == "__rate_interval" {
			return RateInterval
		}
		if len(c[name]) == 0 {
			tb.Fatalf("the variable %s in %s has no value", name, expr)
		}
		var escaped []string
		for _, v := range c[name] {
			escaped = append(escaped, strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`))
		}
		if len(escaped) == 1 {
			return escaped[0]
		}
		return "(" + strings.Join(escaped, "|") + ")"
	})
}
