// Package pages reads the repository's Markdown pages and runs the commands in them, so that a command that no longer
// works fails a test instead of a reader.
//
// A page's fenced blocks in these languages run, in order, in one shell that starts in an empty directory:
//
//   - sh: commands, each of which must succeed. A block that ends in "# keep it running" keeps its terminal: once the
//     server in it logs that it is ready, the page continues in a new shell.
//   - console: commands after "$ ", each followed by its output. "..." stands for any text, alone on a line for any
//     lines. A command that ends in "# Ctrl-C ends it" is interrupted after as many lines as the page shows.
//   - sql: statements for the suite's Postgres, run as its superuser.
//
// Blocks in Go must appear in one of the repository's Go files, which the compiler checks. Anything else (text, yaml,
// ini, mermaid) is an illustration and does not run.
//
// A block belongs to the suite that [suites] gives its page, or to the one that the line before its fence names:
// <!-- suite: kubeapiserver -->. Addresses and directories that a test must not use are replaced; see [Run] and
// [Setup].
//
// A command that cannot run as it stands, because it needs several machines or leaves flags out ("..."), belongs to the
// Go test that the line before its fence names: <!-- test: TestEventStore -->. That test takes the flags from the page;
// see [Own].
package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Names of the suites that run blocks. Each but Packages calls [Run] with its own name.
const (
	Unit          = "unit"          // the main module's tests: sqlstore, sqlite3, curl, openssl
	Etcd          = "etcd"          // test/etcd: also etcd, etcdctl, etcdutl, Postgres
	KubeAPIServer = "kubeapiserver" // test/kubernetes/apiserver: also kube-apiserver and kubectl
	Patroni       = "patroni"       // test/faults/patroni: also docker, etcdctl
	PITR          = "pitr"          // test/pitr: also etcdctl, pgBackRest, Litestream, and Postgres' programs
	Moves         = "moves"         // test/moves: also a systemctl for k3s, which is kine here
	Launchers     = "launchers"     // test/kubernetes/launchers: also docker
	Packages      = "packages"      // test/packages: a Debian of its own, with the files of releases and etcdctl
	Deploy        = "deploy"        // test/kubernetes/deploy: also a kube-apiserver, helm and kubectl
	Examples      = "examples"      // test/kubernetes/edge: also make, kubectl and kwok
	Contributing  = "contributing"  // internal/testing/docs: go and make, which run only what is cheap
)

// Suites lists every suite.
var Suites = []string{
	Unit, Etcd, KubeAPIServer, Patroni, PITR, Moves, Launchers, Packages, Deploy, Examples, Contributing,
}

// suites names the suite of each page that needs more than the unit tests have.
var suites = map[string]string{
	"CONTRIBUTING.md":         Contributing,
	"README.md":               Etcd,
	"docs/getting-started.md": Etcd,
	"docs/edge.md":            Etcd,
	"docs/etcd.md":            Etcd,
	"docs/backups.md":         Etcd,
	"docs/coming-from.md":     Etcd,
	"docs/damage.md":          Etcd,
	"docs/helm.md":            Deploy,
	"docs/install.md":         Packages,
	"docs/moving-etcd.md":     Etcd,
	"docs/moving-kine.md":     Moves,
	"docs/moving-postgres.md": Etcd,
	"docs/moving-to-etcd.md":  Etcd,
	"docs/observe.md":         Etcd,
	"docs/patroni.md":         Patroni,
	"docs/pitr.md":            PITR,
	"docs/postgres.md":        Etcd,
	"docs/security.md":        Etcd,
	"docs/space.md":           Etcd,
	"docs/upgrades.md":        Etcd,
	"examples/edge/README.md": Examples,
}

// Page is one Markdown file.
type Page struct {
	// Name is the path below the repository's root, with slashes.
	Name string
	Text string
}

// Block is a fenced block of a page.
type Block struct {
	Page, Suite, Language, Text string
	// Test is the Go test that takes the block's flags, "" if the suite runs the block.
	Test string
	Line int
}

// String returns the location of the block.
func (b *Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Runs reports whether the block's suite runs it.
func (b *Block) Runs() bool {
	return slices.Contains([]string{"sh", "console", "sql"}, b.Language) && b.Test == ""
}

// Root returns the repository's root.
func Root(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sqlstore/sqlstore").Output()
	if err != nil {
		tb.Fatalf("find the repository: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// All returns the pages at the repository's root, in docs and in examples.
func All(tb testing.TB) []Page {
	tb.Helper()
	root := Root(tb)
	var all []Page
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			tb.Fatalf("no page matches %s in %s: %v", pattern, root, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				tb.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				tb.Fatal(err)
			}
			all = append(all, Page{Name: filepath.ToSlash(name), Text: string(text)})
		}
	}
	return all
}

var (
	fence  = regexp.MustCompile("^\\s*```(\\w*)$")
	marker = regexp.MustCompile(`^\s*<!-- (suite|test): (\w+) -->$`)
)

// Blocks returns the page's fenced blocks. One inside a list is indented; the indentation is not part of it.
func (p *Page) Blocks() []Block {
	var blocks []Block
	var open *Block
	indent, suite, test := "", "", ""
	for i, line := range strings.Split(p.Text, "\n") {
		found := fence.FindStringSubmatch(line)
		switch {
		case found != nil && open != nil:
			blocks, open, suite, test = append(blocks, *open), nil, "", ""
		case found != nil:
			indent, _, _ = strings.Cut(line, "`")
			open = &Block{Page: p.Name, Language: found[1], Suite: suite, Test: test, Line: i + 1}
			if suite == "" {
				open.Suite = Unit
				if s, ok := suites[p.Name]; ok {
					open.Suite = s
				}
			}
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		default:
			suite, test = "", ""
			switch m := marker.FindStringSubmatch(line); {
			case m == nil:
			case m[1] == "suite":
				suite = m[2]
			default:
				test = m[2]
			}
		}
	}
	if open != nil {
		blocks = append(blocks, *open)
	}
	return blocks
}
