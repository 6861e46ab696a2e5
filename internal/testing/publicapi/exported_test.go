package publicapi

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// Programs that embed the server can name every type in its API.
func TestExportedNamesNeedNothingInternal(t *testing.T) {
	if found := mentions(t, module); len(found) > 0 {
		t.Errorf("internal types in the exported API:\n%s", strings.Join(found, "\n"))
	}
}

// The engine is an argument of etcdshim, which only this repository can call.
func TestMentionsAreFound(t *testing.T) {
	const want = "NewServer: " + module + "/internal/store.Store"
	if found := mentions(t, module+"/etcdshim"); !slices.Contains(found, want) {
		t.Errorf("found %q, want %q among them", found, want)
	}
}

// mentions returns where the exported names of a package mention types of internal packages.
func mentions(t *testing.T, path string) []string {
	t.Helper()
	p, err := importer.ForCompiler(token.NewFileSet(), "gc", exports(t, path)).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			w.look(name, o.Type())
		}
	}
	return w.found
}

// exports opens the compiler's export data of a package and of its imports.
func exports(t *testing.T, path string) importer.Lookup {
	t.Helper()
	files := map[string]string{}
	for _, line := range list(t, "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", path) {
		of, file, _ := strings.Cut(line, "\t")
		files[of] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// walk visits a type and those of its parts that other packages can see.
type walk struct {
	seen  map[types.Type]bool
	found []string
}

func (w *walk) look(at string, t types.Type) {
	if w.seen[t] {
		return
	}
	switch t := t.(type) {
	case *types.Alias:
		w.look(at, t.Rhs())
		return
	case *types.Named:
		for a := range t.TypeArgs().Types() {
			w.look(at, a)
		}
		switch p := t.Obj().Pkg(); {
		case p == nil || !inModule(p.Path()):
			return // other modules cannot refer to types of this one
		case internal(p.Path()):
			w.found = append(w.found, fmt.Sprintf("%s: %s", at, t))
			return
		}
	}
	w.seen[t] = true
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m.Obj().Exported() {
			w.look(at+"."+m.Obj().Name(), m.Type())
		}
	}
	switch t := t.Underlying().(type) {
	case *types.Map:
		w.look(at, t.Key())
		w.look(at, t.Elem())
	case interface{ Elem() types.Type }: // pointers, arrays, slices and channels
		w.look(at, t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.look(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.look(at+"."+m.Name(), m.Type())
		}
	case *types.Signature:
		for _, all := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range all.Variables() {
				w.look(at, v.Type())
			}
		}
	}
}
