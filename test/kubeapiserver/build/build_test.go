package build_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/build"
)

// TestKubernetes builds what the other tests start, so that a run can do that first, and checks that each program
// reports its version.
func TestKubernetes(t *testing.T) {
	for _, p := range []struct {
		program build.Program
		version []string
	}{
		{build.APIServer, []string{"--version"}},
		{build.ControllerManager, []string{"--version"}},
		{build.Kubectl, []string{"version", "--client"}},
	} {
		t.Run(p.program.Name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), p.program.Path(t), p.version...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if version := p.program.Version(t); !strings.Contains(string(out), version) {
				t.Errorf("it reports %q, want %s", out, version)
			}
		})
	}
}
