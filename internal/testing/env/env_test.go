package env

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var variable = regexp.MustCompile(`SQLSTORE_TEST_[A-Z_]*[A-Z]`)

// Only the variables of this package exist, in code, scripts and pages.
func TestAllVariablesAreHere(t *testing.T) {
	source, err := os.ReadFile("env.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := variable.FindAllString(string(source), -1)
	if len(declared) > 15 {
		t.Errorf("%d variables, more than anyone remembers: use one of these, or a flag of the test", len(declared))
	}
	root, found := filepath.Join("..", "..", ".."), 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "bin"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !interesting(path) || strings.HasSuffix(path, "env_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			found++
			if !slices.Contains(declared, name) {
				t.Errorf("%s uses %s, which package env does not have", path, name)
			}
		}
		return nil
	})
	if err != nil || found < 2*len(declared) {
		t.Fatalf("%d uses of variables: %v", found, err)
	}
}

// interesting reports whether a file may name variables.
func interesting(path string) bool {
	name := filepath.Base(path)
	return slices.Contains([]string{".go", ".sh", ".md", ".yml", ".yaml"}, filepath.Ext(name)) ||
		name == "Makefile" || name == "run"
}
