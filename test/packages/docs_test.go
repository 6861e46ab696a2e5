package packages

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// install is the page whose commands run in order in one machine.
const install = "docs/install.md"

// released boots a machine that has the files of releases in root's directory, and the checksums of the last.
func released(t *testing.T, versions ...string) *machine {
	t.Helper()
	var files []string
	for _, v := range versions {
		for _, name := range artifacts(t, built(t, v)) {
			files = append(files, filepath.Join(built(t, v), name))
		}
	}
	m := boot(t)
	for _, path := range files {
		m.put(t, path)
	}
	return m
}

// blocks returns the commands of a page for a machine.
func blocks(p *pages.Page) (all []pages.Block) {
	for _, b := range p.Blocks() {
		if b.Suite == pages.Packages && b.Runs() {
			all = append(all, b)
		}
	}
	return all
}

// follow runs a page's commands, and returns what they print.
func (m *machine) follow(t *testing.T, commands []pages.Block) string {
	t.Helper()
	var said strings.Builder
	for _, b := range commands {
		t.Logf("--- %s", &b)
		text := strings.ReplaceAll(b.Text, "_amd64", "_"+runtime.GOARCH)
		said.WriteString(m.run(t, "bash", "-euc", "export HOME=/root; cd; "+text) + "\n")
	}
	return said.String()
}

// The commands on docs/install.md work as written, in order, in a directory with the files of two releases.
func TestDocs(t *testing.T) {
	m := released(t, newer, version)
	for _, p := range pages.All(t) {
		if p.Name != install {
			continue
		}
		if said := m.follow(t, blocks(&p)); !strings.Contains(said, "\n/config/pump-7\n{\"speed\": 3}") {
			t.Errorf("the page's commands do not print the value that they put:\n%s", said)
		}
	}
	m.run(t, "systemctl", "is-active", "sqlstore") // the last block's
}
