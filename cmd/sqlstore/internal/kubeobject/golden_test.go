package kubeobject

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// golden returns the directory of the files that Kubernetes keeps of every kind, with a value in each field.
func golden(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find the module k8s.io/api: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "testdata", "HEAD")
}

// neverStored reports whether a kind is of a group of answers that kube-apiserver or a webhook
// computes.
func neverStored(name string) bool {
	group, _, _ := strings.Cut(name, ".")
	return slices.Contains([]string{"apidiscovery", "authentication", "imagepolicy"}, group)
}

// wanted returns what kubectl prints of an object that was written at revision 7.
func wanted(t *testing.T, text []byte) string {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["resourceVersion"] = "7"
	delete(metadata, "managedFields")
	want, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(want)
}

// Every kind of Kubernetes' own files is decoded from protobuf and from JSON to the YAML beside them.
func TestEveryKind(t *testing.T) {
	dir := golden(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 150 {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".yaml")
		if neverStored(filepath.Base(base)) || !strings.Contains(string(read(t, file)), "\nmetadata:") {
			continue
		}
		t.Run(filepath.Base(base), func(t *testing.T) {
			want := wanted(t, read(t, file))
			for _, form := range []string{".pb", ".json"} {
				value := read(t, base+form)
				o := Decode(value, 7)
				if got := o.String(); got != want {
					t.Errorf("%s prints (problem %q)\n%s\nwant\n%s", form, o.Problem, got, want)
				}
				if k := KindOf(value); k != (Kind{o.APIVersion, o.Kind, o.Namespace}) {
					t.Errorf("%s is of kind %v, want %s %s", form, k, o.APIVersion, o.Kind)
				}
			}
		})
	}
}

// There is a file for each kind that clients can store.
func TestEveryKindHasAFile(t *testing.T) {
	dir := golden(t)
	for gvk, of := range clientgo.Scheme.AllKnownTypes() {
		_, stored := of.FieldByName("ObjectMeta")
		if gvk.Version == "__internal" || !stored || neverStored(gvk.Group) ||
			strings.HasSuffix(of.PkgPath(), "apis/meta/v1") {
			continue
		}
		if gvk.Group == "" {
			gvk.Group = "core"
		}
		name := strings.Join([]string{gvk.Group, gvk.Version, gvk.Kind, "yaml"}, ".")
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The scheme also holds the groups of both servers that kube-apiserver delegates to.
func TestDelegatesAreKnown(t *testing.T) {
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "apiextensions.k8s.io", Version: "v1beta1", Kind: "CustomResourceDefinition"},
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	} {
		if !builtin().scheme.Recognizes(gvk) {
			t.Errorf("%v is unknown", gvk)
		}
	}
}
