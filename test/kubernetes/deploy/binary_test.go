package deploy

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// accepts fails the test unless the binary accepts the container's arguments, variables and files.
func accepts(t *testing.T, c *container) {
	t.Helper()
	args := c.arguments()
	if args[0] != "serve" {
		t.Fatalf("not a server: %q", args)
	}
	cmd := exec.CommandContext(t.Context(), launch.Binary(t), append([]string{"config", "check"}, args[1:]...)...)
	cmd.Env = append(c.environment(), "HOME="+os.Getenv("HOME"))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Found no error") {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
	for _, a := range c.spec.Args {
		if _, path, ok := strings.Cut(a, "=/"); ok && !mounts(c, "/"+path) {
			t.Errorf("%s is on no volume", a)
		}
	}
}

// mounts reports whether a path is on one of the container's volumes.
func mounts(c *container, path string) bool {
	for _, m := range c.spec.VolumeMounts {
		if path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/") {
			return true
		}
	}
	return false
}

// The server accepts the arguments, variables and files of every Pod.
func TestArguments(t *testing.T) {
	eachRendering(t, func(t *testing.T, all objects) {
		pod, _ := all.workload(t)
		accepts(t, prepare(t, &pod.Spec, claims(t, all), "postgres://sqlstore:secret@pg/sqlstore", "secret"))
	})
}
