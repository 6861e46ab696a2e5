package containers

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// The documented commands work, with names of their own for the containers, the volumes and the image.
func TestDocs(t *testing.T) {
	replace := []string{"sqlstore:dev", image(t)}
	for _, documented := range []string{"etcd", "sqlstore"} {
		name := hosts.UniqueName()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			if out, err := exec.CommandContext(ctx, "docker", "rm", "-f", name).CombinedOutput(); err != nil {
				t.Errorf("remove container %s: %v\n%s", name, err, out)
			}
			removeVolume(t, name+"-data")
		})
		replace = append(replace, "--name "+documented+" ", "--name "+name+" ", "-v "+documented+"-data:",
			"-v "+name+"-data:", "docker exec "+documented+" ", "docker exec "+name+" ")
	}
	pages.Run(t, pages.Launchers, pages.Setup{Replace: strings.NewReplacer(replace...).Replace})
}
