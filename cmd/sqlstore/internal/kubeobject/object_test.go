package kubeobject

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

// protobufOf returns an object as kube-apiserver stores it.
func protobufOf(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	var value strings.Builder
	if err := builtin().typed.Encode(o, &value); err != nil {
		t.Fatal(err)
	}
	return []byte(value.String())
}

// What a value is decoded to does not depend on whether Kubernetes knows it.
func TestDecode(t *testing.T) {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Data: map[string][]byte{"k": {1, 2}},
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "a.b/v1", Kind: "New"}, Raw: []byte{8, 1}}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value string
		want  string
	}{
		"protobuf": {string(protobufOf(t, secret)), `apiVersion: v1
data:
  k: AQI=
kind: Secret
metadata:
  name: s
  namespace: ns
  resourceVersion: "9"
`},
		"custom": {
			`{"kind":"Top","apiVersion":"a.b/v1","spec":{"f":1.0,"i":12345678901,"m":null},` +
				`"metadata":{"name":"t","managedFields":[{"manager":"m"}]}}`,
			"apiVersion: a.b/v1\nkind: Top\nmetadata:\n  name: t\n  resourceVersion: \"9\"\n" +
				"spec:\n  f: 1\n  i: 12345678901\n  m: null\n",
		},
		"json":         {`{"a":1}`, "{\"a\":1}\n"},
		"text":         {"1234\n", "1234\n"},
		"empty":        {"", "\n"},
		"binary":       {"\x00\xff", "00000000  00 ff                                             |..|\n"},
		"key":          {"k8s:enc:aescbc:v1:key1:\xff\x01", "# encrypted: provider aescbc v1, key key1, 25 bytes\n"},
		"kms":          {"k8s:enc:kms:v2:cloud:\xff:\x01", "# encrypted: provider kms v2, key cloud, 24 bytes\n"},
		"cut off":      {"k8s:enc:aes", "# encrypted: provider aes, 11 bytes\n"},
		"unknown kind": {"k8s\x00" + string(body), "# a.b/v1 New, protobuf: unknown kind\n00000000  6b 38 73 00"},
		"no envelope":  {"k8s\x00\xff", "00000000  6b 38 73 00 ff"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Decode([]byte(c.value), 9)
			if got := o.String(); !strings.HasPrefix(got, c.want) {
				t.Errorf("prints\n%s\nwant\n%s", got, c.want)
			}
			if _, err := json.Marshal(o.Data()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Custom resources may be stored as CBOR.
func TestCBOR(t *testing.T) {
	value, err := direct.Marshal(map[string]any{
		"apiVersion": "a.b/v1", "kind": "Top", "metadata": map[string]any{"name": "t", "namespace": "ns"},
		"spec": map[string]any{"i": int64(5)},
	})
	if err != nil {
		t.Fatal(err)
	}
	value = append(cborPrefix[:3:3], value...)
	want := "apiVersion: a.b/v1\nkind: Top\nmetadata:\n  name: t\n  namespace: ns\n  resourceVersion: \"9\"\n" +
		"spec:\n  i: 5\n"
	if got := Decode(value, 9).String(); got != want {
		t.Errorf("prints\n%s\nwant\n%s", got, want)
	}
	if got := KindOf(value); got != (Kind{"a.b/v1", "Top", "ns"}) {
		t.Errorf("is of kind %v", got)
	}
}

// kube-apiserver stores a definition as v1beta1 to save space, and serves v1.
func TestStoredAsAnotherVersion(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "tops.a.b", UID: "u"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "a.b", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "tops", Singular: "top", Kind: "Top", ListKind: "TopList",
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.NoneConverter,
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.a.b"},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "a.b", Version: "v1", GroupPriorityMinimum: 1},
	}
	for older, object := range map[string]runtime.Object{
		"apiextensions.k8s.io/v1beta1":   definition,
		"apiregistration.k8s.io/v1beta1": service,
	} {
		group, _, _ := strings.Cut(older, "/")
		newer := served[group]
		object, err := builtin().scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
		if err != nil {
			t.Fatal(err)
		}
		want, err := runtime.Encode(builtin().codecs.LegacyCodec(newer), object)
		if err != nil {
			t.Fatal(err)
		}
		gv := newer
		gv.Version = "v1beta1"
		stored, err := runtime.Encode(builtin().codecs.LegacyCodec(gv), object)
		if err != nil {
			t.Fatal(err)
		}
		var was, is, wanted map[string]any
		o := Decode(stored, 9)
		if err := json.Unmarshal(stored, &was); err != nil || was["apiVersion"] != older {
			t.Fatalf("stored as %v, %v", was["apiVersion"], err)
		}
		if err := yaml.Unmarshal([]byte(o.String()), &is); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want, &wanted); err != nil {
			t.Fatal(err)
		}
		wanted["metadata"].(map[string]any)["resourceVersion"] = "9"
		got, _ := json.Marshal(is)
		expected, _ := json.Marshal(wanted)
		if string(got) != string(expected) {
			t.Errorf("decoded to\n%s\nwant\n%s (problem %q)", got, expected, o.Problem)
		}
	}
}
