package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// directory returns the path of deploy/monitoring.
func directory(t *testing.T) string {
	t.Helper()
	return filepath.Join(pages.Root(t), "deploy", "monitoring")
}

// rule is a rule for Prometheus: an alert, or a recorded metric.
type rule struct{ Alert, Record, Expr string }

// rules returns those of rules.yaml.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory(t), "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}
