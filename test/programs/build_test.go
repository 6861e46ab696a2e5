package programs_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/programs"
)

// TestPrograms builds what the Kubernetes suites start, so that a run can do that first, and checks that each program
// reports its version.
func TestPrograms(t *testing.T) {
	for _, p := range []struct {
		program programs.Program
		version []string
	}{
		{programs.APIServer, []string{"--version"}},
		{programs.ControllerManager, []string{"--version"}},
		{programs.Scheduler, []string{"--version"}},
		{programs.Kubectl, []string{"version", "--client"}},
		{programs.Kubeadm, []string{"version"}},
		{programs.Helm, []string{"version"}},
		{programs.Kwok, []string{"--version"}},
		{programs.Kwokctl, []string{"--version"}},
	} {
		t.Run(p.program.Name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), p.program.Path(t), p.version...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if version := p.program.Version(t); !strings.Contains(string(out), strings.TrimPrefix(version, "v")) {
				t.Errorf("it reports %q, want %s", out, version)
			}
		})
	}
}
