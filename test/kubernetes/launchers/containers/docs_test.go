package containers

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// The documented commands work, with names of their own for the container, the volume and the image.
func TestDocs(t *testing.T) {
	name, ref := hosts.UniqueName(), image(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "docker", "rm", "-f", name).CombinedOutput(); err != nil {
			t.Errorf("remove container %s: %v\n%s", name, err, out)
		}
		removeVolume(t, name+"-data")
	})
	pages.Run(t, pages.Launchers, pages.Setup{Replace: func(text string) string {
		return strings.NewReplacer(
			"sqlstore:dev", ref, "--name etcd ", "--name "+name+" ", "-v etcd-data:", "-v "+name+"-data:",
			"docker exec etcd ", "docker exec "+name+" ",
		).Replace(text)
	}})
}
