package build_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/build"
)

// TestPrograms builds what the other tests start, so that a run can do that first, and checks that each program
// reports its version.
func TestPrograms(t *testing.T) {
	for _, p := range []struct {
		program build.Program
		version []string
	}{
		{build.APIServer, []string{"--version"}},
		{build.ControllerManager, []string{"--version"}},
		{build.Scheduler, []string{"--version"}},
		{build.Kubectl, []string{"version", "--client"}},
		{build.Kubeadm, []string{"version"}},
		{build.Kwok, []string{"--version"}},
		{build.Kwokctl, []string{"--version"}},
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
