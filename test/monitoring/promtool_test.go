package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// promtool runs Prometheus' tool, which is in Debian's package prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// The rules are valid; in each case of rules_test.yaml exactly the alerts fire that it lists.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", file(t, "rules.yaml"))
	promtool(t, "test", "rules", file(t, "rules_test.yaml"))
}

// The expressions of the dashboard are valid: they would do as rules.
func TestDashboard(t *testing.T) {
	type rule struct{ Record, Expr string }
	type group struct {
		Name  string
		Rules []rule
	}
	g := group{Name: "dashboard"}
	for i, e := range panels(t) {
		g.Rules = append(g.Rules, rule{fmt.Sprintf("panel:%d", i), e.text})
	}
	text, err := yaml.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
