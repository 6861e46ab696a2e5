package monitoring

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// promtool runs Prometheus' tool, which is in Debian's package prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// The rules are valid; each alert fires in its case and in no other.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", filepath.Join(directory(t), "rules.yaml"))
	promtool(t, "test", "rules", filepath.Join(directory(t), "rules_test.yaml"))
}
