package storage

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// suite is the package whose tests run here.
const suite = "k8s.io/apiserver/pkg/storage/testing"

// excluded names the tests that a suite does not run, by its file, and why.
var excluded = map[string]map[string]string{
	"store_suite_test.go": {
		"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": "only a watch cache sends such bookmarks unasked",
	},
	"cache_suite_test.go": {
		"RunTestTransformationFailure":          readsFromCache,
		"RunTestGetListWithErrorAggregation":    readsFromCache,
		"RunTestGetListWithoutErrorAggregation": readsFromCache,
		"RunTestWatchError":                     readsFromCache,
		"RunTestWatchWithUnsafeDelete":          readsFromCache,
		"RunWatchErrorIsBlockingFurtherEvents":  readsFromCache,
		"RunTestListInconsistentContinuation": "wants pages at resource version 0, where a watch cache returns " +
			"everything at once",
		"RunOptionalTestProgressNotify": "a watch cache asks its store for progress notifications but " +
			"offers none",
	},
}

// readsFromCache excludes the tests that break the decryption of stored objects, and expect lists and watches to
// notice. Similar tests that update and delete do run.
const readsFromCache = "a watch cache has decoded the values before the test makes that fail"

// TestComplete compares the suites with what Kubernetes exports, both read from source: a test from a newer Kubernetes
// must run or be excluded, and no exclusion may outlive its reason.
func TestComplete(t *testing.T) {
	exported := exportedTests(t)
	if len(exported) == 0 {
		t.Fatalf("%s exports no tests", suite)
	}
	for file, exclusions := range excluded {
		called := calledTests(t, file)
		for name := range exported {
			if called[name] == (exclusions[name] != "") {
				t.Errorf("%s: %s is run: %v, excluded: %q", file, name, called[name], exclusions[name])
			}
		}
		for name := range exclusions {
			if !exported[name] {
				t.Errorf("%s: %s is excluded but does not exist", file, name)
			}
		}
	}
}

// exportedTests returns the exported functions of suite that run a test. Some are called RunTest...,
// some RunWatch... and the like; all take a *testing.T or a testing.TB.
func exportedTests(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", suite).Output()
	if err != nil {
		t.Fatalf("find %s: %v", suite, err)
	}
	dir := strings.TrimSpace(string(out))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		for _, decl := range parse(t, filepath.Join(dir, entry.Name())).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") && takesTest(f) {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}

// takesTest reports whether a parameter of f is a *testing.T or a testing.TB.
func takesTest(f *ast.FuncDecl) bool {
	for _, param := range f.Type.Params.List {
		typ := param.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if sel, ok := typ.(*ast.SelectorExpr); ok && isIdent(sel.X, "testing") &&
			(sel.Sel.Name == "T" || sel.Sel.Name == "TB") {
			return true
		}
	}
	return false
}

// calledTests returns the functions of suite that a file of this package calls.
func calledTests(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed := parse(t, file)
	local := ""
	for _, spec := range parsed.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == suite && spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		t.Fatalf("%s does not import %s under a name", file, suite)
	}
	called := map[string]bool{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && isIdent(sel.X, local) {
				called[sel.Sel.Name] = true
			}
		}
		return true
	})
	return called
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
