package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/status"
)

const runbook = "docs/runbook.md"

// alert is a rule for Prometheus that has a name.
type alert struct {
	Alert               string
	Labels, Annotations map[string]string
}

// page returns the page of a name.
func page(t *testing.T, name string) *pages.Page {
	t.Helper()
	all := pages.All(t)
	return &all[slices.IndexFunc(all, func(p pages.Page) bool { return p.Name == name })]
}

// monitoring returns a file of deploy/monitoring.
func monitoring(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pages.Root(t), "deploy", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alerts returns the alerts of the rules. Two may have one name, with different severities.
func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var rules struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(monitoring(t, "rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		all = append(all, slices.DeleteFunc(g.Rules, func(a alert) bool { return a.Alert == "" })...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d alerts", len(all))
	}
	return all
}

// Each condition that is a fault has an alert.
func TestConditionsHaveAlerts(t *testing.T) {
	rules := string(monitoring(t, "rules.yaml"))
	for _, kind := range status.Negative {
		if !strings.Contains(rules, `expr: sqlstore:condition:unacknowledged{type="`+kind+`"}`) {
			t.Errorf("no alert has the condition %s alone", kind)
		}
	}
}

// Each alert says what is wrong and how bad that is, leads to its section of the runbook, and fires in a test.
func TestAlerts(t *testing.T) {
	sections := headings(page(t, runbook))
	tests := string(monitoring(t, "rules_test.yaml"))
	for _, a := range alerts(t) {
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", a.Alert)
		}
		severity := a.Labels["severity"]
		if severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q, want critical or warning", a.Alert, severity)
		}
		anchor := "#" + strings.ToLower(a.Alert)
		want := "https://github.com/sqlstore/sqlstore/blob/main/" + runbook + anchor
		if url := a.Annotations["runbook_url"]; url != want || !slices.Contains(sections, anchor) {
			t.Errorf("%s has the runbook_url %q, want %q, and a section there", a.Alert, url, want)
		}
		if fires := fmt.Sprintf(`alertname="%s",severity="%s"`, a.Alert, severity); !strings.Contains(tests, fires) {
			t.Errorf("no case of rules_test.yaml has %s", fires)
		}
	}
}

var (
	section = regexp.MustCompile(`(?m)^### (Sqlstore\w+)\n`)
	parts   = regexp.MustCompile(`(?m)^\*\*(\w[\w ]*)\b`)
)

// Each section of the runbook belongs to an alert, and has the same parts.
func TestRunbook(t *testing.T) {
	known, text := alerts(t), page(t, runbook).Text
	starts := section.FindAllStringSubmatchIndex(text, -1)
	for i, at := range starts {
		name, end := text[at[2]:at[3]], len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if !slices.ContainsFunc(known, func(a alert) bool { return a.Alert == name }) {
			t.Errorf("the runbook has a section on %s, which is no alert", name)
		}
		var got []string
		for _, m := range parts.FindAllStringSubmatch(text[at[1]:end], -1) {
			got = append(got, m[1])
		}
		if want := []string{"Meaning", "Impact", "Look at", "Do"}; !slices.Equal(got, want) {
			t.Errorf("the section on %s has the parts %q, want %q", name, got, want)
		}
	}
}
