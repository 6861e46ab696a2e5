package kubeobject

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Format is how a value is stored.
type Format string

// The formats. A value is [Text] if it is UTF-8 without control characters, and otherwise [Binary].
const (
	Protobuf  Format = "protobuf"
	JSON      Format = "json"
	CBOR      Format = "cbor"
	Encrypted Format = "encrypted"
	Text      Format = "text"
	Binary    Format = "binary"
)

// Object is a decoded value.
type Object struct {
	Format Format
	// APIVersion, Kind, Namespace and Name are those of a Kubernetes object, "" if it is none or is encrypted.
	APIVersion, Kind, Namespace, Name string
	// Provider and KeyName say what encrypted a value.
	Provider, KeyName string
	// Fields is the object as a client sees it, without managedFields; nil unless it is a Kubernetes object of a known
	// kind. It must not change.
	Fields map[string]any
	// Problem says why a Kubernetes object has no Fields.
	Problem string

	value []byte
}

// Decode decodes a value that was written at a revision, which is the object's resourceVersion.
func Decode(value []byte, revision int64) *Object {
	o := &Object{value: value}
	switch {
	case bytes.HasPrefix(value, encryptedPrefix):
		o.encrypted()
	case bytes.HasPrefix(value, protobufPrefix):
		o.Format = Protobuf
		o.set(fromProtobuf(value), revision)
	case bytes.HasPrefix(value, cborPrefix):
		o.Format = CBOR
		o.set(fromCBOR(value), revision)
	case isJSON(value):
		o.Format = JSON
		o.set(fromJSON(value), revision)
	case readable(value):
		o.Format = Text
	default:
		o.Format = Binary
	}
	return o
}

// decoded is an object, or what is known of one that cannot be decoded.
type decoded struct {
	object           *unstructured.Unstructured
	apiVersion, kind string
	err              error
}

func (o *Object) set(d decoded, revision int64) {
	o.APIVersion, o.Kind = d.apiVersion, d.kind
	if d.err != nil {
		o.Problem = d.err.Error()
	}
	if d.object == nil {
		return
	}
	o.APIVersion, o.Kind = d.object.GetAPIVersion(), d.object.GetKind()
	o.Namespace, o.Name = d.object.GetNamespace(), d.object.GetName()
	d.object.SetResourceVersion(fmt.Sprint(revision))
	d.object.SetManagedFields(nil)
	o.Fields = d.object.Object
}

// encryptedPrefix begins a value that kube-apiserver encrypted: k8s:enc:PROVIDER:VERSION:KEY:
var encryptedPrefix = []byte("k8s:enc:")

func (o *Object) encrypted() {
	o.Format = Encrypted
	parts := bytes.SplitN(o.value[len(encryptedPrefix):], []byte(":"), 4)
	o.Provider = string(parts[0])
	if len(parts) > 1 {
		o.Provider += " " + string(parts[1])
	}
	if len(parts) == 4 {
		o.KeyName = string(parts[2])
	}
}

// isJSON reports whether a value is a JSON object or list. Any number or word is JSON, too, but is better shown as it
// is.
func isJSON(value []byte) bool {
	start := bytes.TrimLeft(value, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(value)
}

// readable reports whether a terminal can show a value.
func readable(value []byte) bool {
	if !utf8.Valid(value) {
		return false
	}
	return !bytes.ContainsFunc(value, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f
	})
}

// String returns the value for people: a Kubernetes object as the YAML that kubectl prints, other JSON and text as they
// are, and a description or hex of the rest. It ends with a line break.
func (o *Object) String() string {
	switch {
	case o.Fields != nil:
		text, err := yaml.Marshal(o.Fields)
		if err == nil {
			return string(text)
		}
		return fmt.Sprintf("# %v\n%s", err, hex.Dump(o.value))
	case o.Format == Encrypted:
		return fmt.Sprintf("# encrypted: %s, %d bytes\n", o.Cipher(), len(o.value))
	case o.Format == JSON || o.Format == Text:
		return strings.TrimSuffix(string(o.value), "\n") + "\n"
	case o.Kind != "":
		return fmt.Sprintf("# %s %s, %s: %s\n%s", o.APIVersion, o.Kind, o.Format, o.Problem, hex.Dump(o.value))
	}
	return hex.Dump(o.value)
}

// Cipher describes what encrypted a value.
func (o *Object) Cipher() string {
	if o.KeyName == "" {
		return "provider " + o.Provider
	}
	return fmt.Sprintf("provider %s, key %s", o.Provider, o.KeyName)
}

// Data returns the value for programs that read JSON or YAML: fields of an object, a text, or hex in the field "hex".
func (o *Object) Data() any {
	var other any
	switch {
	case o.Fields != nil:
		return o.Fields
	case o.Format == Encrypted:
		return map[string]any{"encrypted": map[string]any{"provider": o.Provider, "key": o.KeyName}}
	case o.Format == Text:
		return string(o.value)
	case o.Format == JSON && yaml.Unmarshal(o.value, &other) == nil:
		return other
	}
	return map[string]any{"hex": hex.EncodeToString(o.value)}
}

// head reads the type and the metadata's names alone.
type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}
