package programs

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

//go:embed modules testdata
var files embed.FS

// module is where a program is built.
type module struct {
	version  string // of the program's module
	sum      string // of everything that selects what is built
	dir      string // with the go.mod
	contents map[string][]byte
}

// module reads the files to build with. Those of a program with dependencies of its own are not yet in their directory.
func (p Program) module() (m module, err error) {
	m.contents = map[string][]byte{}
	if p.File == "" {
		if m.dir, err = suites(); err != nil {
			return m, err
		}
	}
	for _, name := range []string{"mod", "sum"} {
		content, err := fs.ReadFile(files, "modules/"+p.File+"."+name)
		if p.File == "" {
			content, err = os.ReadFile(filepath.Join(m.dir, "go."+name))
		}
		if err != nil {
			return m, err
		}
		m.contents["go."+name] = content
	}
	if own, err := fs.ReadFile(files, "testdata/"+p.Name+"/main.go"); err == nil {
		m.contents[p.Name+"/main.go"] = own
	}
	version := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(p.Module) + ` (v\S+)`)
	found := version.FindSubmatch(m.contents["go.mod"])
	if found == nil {
		return m, fmt.Errorf("the go.mod of %s requires no %s", p.Name, p.Module)
	}
	m.version = string(found[1])
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", p.Name + "/main.go"} {
		fmt.Fprintf(hash, "%s %d\n%s", name, len(m.contents[name]), m.contents[name])
	}
	m.sum = hex.EncodeToString(hash.Sum(nil)[:6])
	return m, nil
}

// write writes the files into a directory to build in.
func (m *module) write(dir string) error {
	m.dir = dir
	for name, content := range m.contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// suites returns the directory of the suites' own module, whichever module's test runs.
func suites() (string, error) {
	root, err := output(".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sqlstore/sqlstore")
	return filepath.Join(root, "test"), err
}
