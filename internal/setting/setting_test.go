package setting_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/setting"
)

func TestNamesAreFieldsForPrograms(t *testing.T) {
	if got := setting.Name("TLS.Cert"); got != "Config.TLS.Cert" {
		t.Error(got)
	}
}

// Messages of the packages below the command do not name its flags, and the fields that they name exist. A command that
// an operator is to run is named with its flags.
func TestMessagesNameFields(t *testing.T) {
	flag := regexp.MustCompile(`(^|[^-\w])--[a-z]`)
	command := regexp.MustCompile(`(sqlstore repair|sqlstore import|token-keys rotate|pg_checksums|initdb) --`)
	named := 0
	for _, dir := range []string{"", "backend", "compactor", "etcdshim", "internal", "paging", "schema"} {
		for path := range sources(t, filepath.Join("../..", dir), dir != "") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if flag.MatchString(n.Value) && !command.MatchString(n.Value) {
						t.Errorf("%s names a flag: %s", path, n.Value)
					}
				case *ast.CallExpr:
					if field := fieldOf(n); field != "" {
						named++
						if !isField(field) {
							t.Errorf("%s names %s, which sqlstore.Config lacks", path, field)
						}
					}
				}
				return true
			})
		}
	}
	if named < 10 {
		t.Errorf("found %d fields in messages, fewer than there are", named)
	}
}

// sources are the Go files below dir, or in it, without tests and internal/testing.
func sources(t *testing.T, dir string, below bool) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (!below || d.Name() == "testing"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			found[path] = true
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%s has %d sources: %v", dir, len(found), err)
	}
	return found
}

// fieldOf is the argument of a call of [setting.Name], "" for other calls.
func fieldOf(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Name" || len(call.Args) != 1 {
		return ""
	}
	if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "setting" {
		return ""
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "(not a literal)"
	}
	field, _ := strconv.Unquote(literal.Value)
	return field
}

func isField(path string) bool {
	in := reflect.TypeFor[sqlstore.Config]()
	for name := range strings.SplitSeq(path, ".") {
		f, ok := in.FieldByName(name)
		if !ok {
			return false
		}
		in = f.Type
	}
	return true
}
