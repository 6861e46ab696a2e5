package packages

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// The commands on docs/install.md work as written, in order, in a directory with the files of two releases.
func TestDocs(t *testing.T) {
	first, second := built(t, version), built(t, newer)
	m := boot(t)
	for _, dist := range []string{second, first} { // the page checks the sums of the first
		for _, name := range artifacts(t, dist) {
			m.put(t, filepath.Join(dist, name))
		}
	}
	var said strings.Builder
	for _, p := range pages.All(t) {
		for _, b := range p.Blocks() {
			if b.Suite == pages.Packages && b.Runs() {
				t.Logf("--- %s", &b)
				text := strings.ReplaceAll(b.Text, "_amd64", "_"+runtime.GOARCH)
				said.WriteString(m.run(t, "bash", "-euc", "export HOME=/root; cd; "+text))
			}
		}
	}
	if !strings.Contains(said.String(), "\n/config/pump-7\n{\"speed\": 3}") {
		t.Errorf("the page's commands do not print the value that they put:\n%s", said.String())
	}
	m.run(t, "systemctl", "is-active", "sqlstore") // the last block's
}
