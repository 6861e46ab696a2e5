package kubeobject

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func total(s Sizes) (n int64) {
	for _, size := range s {
		n += size
	}
	return n
}

// The fields of every kind have names, in protobuf those of JSON, and add up to the value.
func TestSizesOfEveryKind(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden(t), "*.pb"))
	if err != nil || len(files) < 150 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".pb")
		text, err := os.ReadFile(base + ".yaml")
		name := filepath.Base(base)
		if neverStored(name) || name == "core.v1.Status" || err != nil ||
			!strings.Contains(string(text), "\nmetadata:") {
			continue
		}
		inProtobuf, inJSON := read(t, file), read(t, base+".json")
		_, kind, wire, ok := SizesOf(inProtobuf)
		_, _, plain, okJSON := SizesOf(inJSON)
		if !ok || !okJSON || total(wire) != int64(len(inProtobuf)) || total(plain) != int64(len(inJSON)) {
			t.Errorf("%s: %v of %d bytes, %v of %d bytes", file, wire, len(inProtobuf), plain, len(inJSON))
			continue
		}
		if !slices.Equal(slices.Sorted(maps.Keys(wire)), slices.Sorted(maps.Keys(plain))) || wire[OtherFields] > 0 {
			t.Errorf("%s: fields %v in protobuf and %v in JSON", kind, wire, plain)
		}
		if wire["metadata.managedFields"] == 0 || wire["metadata.annotations"] == 0 || wire[Encoding] < 0 {
			t.Errorf("%s: fields %v", kind, wire)
		}
	}
}

func TestSizes(t *testing.T) {
	const custom = `{"apiVersion":"a.b/v1","kind":"Top","metadata":{"name":"t","annotations":{"a":"b",` +
		`"kubectl.kubernetes.io/last-applied-configuration":"{}"},"labels":null},"spec":{"metadata":{"name":1}} }`
	deployed := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{
			"a": "b", lastAppliedName: strings.Repeat("x", 1000),
		}},
		Data: map[string]string{"k": strings.Repeat("y", 500)},
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "a.b/v9", Kind: "New"}}
	var err error
	if unknown.Raw, err = deployed.Marshal(); err != nil {
		t.Fatal(err)
	}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	many := `{"apiVersion":"v1","kind":"K"`
	for i := range 1000 {
		many += `,"` + strings.Repeat("f", i) + `":1`
	}
	many += "}"
	for name, c := range map[string]struct {
		value string
		kind  string
		want  Sizes // without [Encoding]
	}{
		"JSON": {custom, "Top", Sizes{
			"apiVersion": 21, "kind": 13, "metadata.name": 10, "metadata.labels": 14,
			"metadata.annotations": 7, LastApplied: 56, "spec": 31,
		}},
		"protobuf": {string(protobufOf(t, deployed)), "ConfigMap", Sizes{
			"apiVersion": 4, "kind": 11, "metadata.name": 3, "metadata.annotations": 8,
			LastApplied: 3 + 2 + int64(len(lastAppliedName)) + 3 + 1000, "data": 2 + 1 + 3 + 503,
		}},
		"unknown kind": {"k8s\x00" + string(body), "New", Sizes{
			"apiVersion": 8, "kind": 5, "metadata.name": 3, "metadata.annotations": 8,
			LastApplied: 3 + 2 + int64(len(lastAppliedName)) + 3 + 1000, OtherFields: 2 + 1 + 3 + 503,
		}},
		"metadata of another type": {`{"apiVersion":"v1","kind":"K","metadata":[1]}`, "K", Sizes{
			"apiVersion": 17, "kind": 11, "metadata": 15,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, kind, s, ok := SizesOf([]byte(c.value))
			if !ok || kind != c.kind || total(s) != int64(len(c.value)) {
				t.Fatalf("%s %v of %d bytes, %v", kind, s, len(c.value), ok)
			}
			for field, want := range c.want {
				if s[field] != want {
					t.Errorf("%s has %d bytes, want %d", field, s[field], want)
				}
			}
			for field, n := range s { // Kubernetes writes some fields although they are empty
				if _, wanted := c.want[field]; !wanted && field != Encoding && n > 2 {
					t.Errorf("%s has %d bytes", field, n)
				}
			}
		})
	}
	if _, _, s, ok := SizesOf([]byte(`{"apiVersion":"v1","kind":"K","(encoding)":1}`)); !ok || s[`"(encoding)"`] != 15 {
		t.Errorf("a field that is called like the encoding: %v", s)
	}
	if _, _, s, ok := SizesOf([]byte(many)); !ok || len(s) > mostFields+2 || s[OtherFields] < 400_000 {
		t.Errorf("%d fields, %d bytes of others, %v", len(s), s[OtherFields], ok)
	}
	for _, value := range []string{
		"", "1", "{", `{"a":1}`, `{"apiVersion":"v1","kind":1}`, `{"apiVersion":"v1","kind":"K"} x`,
		"k8s:enc:kms:v2:k:1", "k8s\x00", "k8s\x00\xff", "k8s\x00\x0a\x02\x0a\x05", string(cborPrefix),
		`{"apiVersion":"v1","kind":"K",1:2}`,
		"k8s\x00\x0a\x03\x12\x01K\x12\x02\xff\xff",
	} {
		if _, _, s, ok := SizesOf([]byte(value)); ok {
			t.Errorf("%q: %v", value, s)
		}
	}
}

// Hostile values are refused, or their fields add up.
func FuzzSizes(f *testing.F) {
	f.Add([]byte("k8s\x00\x0a\x03\x12\x01K\x12\x05\x0a\x03\x0a\x01n"))
	f.Add([]byte("k8s\x00\x0a\x03\x12\x01K\x12\x08\x0b\x0b\x0b\x0b\x0c\x0c\x0c\x0c"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"K","metadata":{"annotations":{"a":"b"}},"spec":[{"a":{}}]}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		_, _, s, ok := SizesOf(value)
		if ok && total(s) != int64(len(value)) || len(s) > mostFields+2 {
			t.Errorf("%d fields, %d bytes of %d", len(s), total(s), len(value))
		}
		for name, n := range s {
			if n < 0 || len(name) > mostFieldName {
				t.Errorf("field %q: %d bytes", name, n)
			}
		}
	})
}
