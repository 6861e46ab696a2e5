package kubeobject

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of what an object has besides its fields.
const (
	// LastApplied is the annotation in which kubectl apply keeps a copy of the object.
	LastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"
	// OtherFields are those of an object in protobuf that this version of the command does not know, and in JSON those
	// with a long name and those beyond a number of them.
	OtherFields = "(other fields)"
	// Encoding is what is neither of a field nor of its name.
	Encoding = "(encoding)"
)

const (
	metadataField    = "metadata"
	annotationsField = "metadata.annotations"
	lastAppliedName  = "kubectl.kubernetes.io/last-applied-configuration"
)

// mostFields and mostFieldName bound the names of a value's fields. No kind of Kubernetes has as many.
const (
	mostFields    = 128
	mostFieldName = 128
)

// Sizes are the bytes of the fields of an object by their names, such as "spec". Those of the metadata count one by
// one, such as "metadata.labels", and [LastApplied] counts apart from the other annotations. Together they are the
// value.
type Sizes map[string]int64

// SizesOf returns the type of an object, and the sizes of its fields, without decoding them. It returns false for what
// is not readable: an encrypted value, what is no Kubernetes object, and one in CBOR.
func SizesOf(value []byte) (apiVersion, kind string, s Sizes, ok bool) {
	s = Sizes{}
	if bytes.HasPrefix(value, protobufPrefix) {
		apiVersion, kind, ok = s.protobuf(value[len(protobufPrefix):])
	} else if len(value) > 0 && value[0] == '{' {
		apiVersion, kind, ok = s.json(value)
	}
	if !ok {
		return "", "", nil, false
	}
	rest := int64(len(value))
	for _, n := range s {
		rest -= n
	}
	s[Encoding] += rest
	return apiVersion, kind, s, true
}

func (s Sizes) add(name string, size int64) {
	if _, known := s[name]; !known && (len(s) >= mostFields || len(name) > mostFieldName) {
		name = OtherFields
	}
	s[name] += size
}

// walk calls f with each field of a message: its number, its size with the tag, and the contents of one that has a
// length. It returns false if the message is malformed.
func walk(message []byte, f func(number protowire.Number, size int, contents []byte) bool) bool {
	for len(message) > 0 {
		number, wireType, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return false
		}
		n := protowire.ConsumeFieldValue(number, wireType, message[tag:])
		if n < 0 {
			return false
		}
		var contents []byte
		if wireType == protowire.BytesType {
			contents, _ = protowire.ConsumeBytes(message[tag:])
		}
		if !f(number, tag+n, contents) {
			return false
		}
		message = message[tag+n:]
	}
	return true
}

// protobuf adds the fields of an envelope's object. The envelope is a runtime.Unknown, its type a runtime.TypeMeta.
func (s Sizes) protobuf(envelope []byte) (apiVersion, kind string, ok bool) {
	var object []byte
	ok = walk(envelope, func(number protowire.Number, _ int, contents []byte) bool {
		switch number {
		case 1:
			return walk(contents, func(number protowire.Number, size int, contents []byte) bool {
				switch number {
				case 1:
					apiVersion = string(contents)
					s.add("apiVersion", int64(size))
				case 2:
					kind = string(contents)
					s.add("kind", int64(size))
				}
				return true
			})
		case 2:
			object = contents
		}
		return true
	})
	if !ok || kind == "" {
		return "", "", false
	}
	names := wireNames()[schema.FromAPIVersionAndKind(apiVersion, kind)]
	if names == nil {
		names = unknownKind
	}
	ok = walk(object, func(number protowire.Number, size int, contents []byte) bool {
		switch name := names[number]; name {
		case "":
			s.add(OtherFields, int64(size))
		case metadataField:
			return s.metadata(contents)
		default:
			s.add(name, int64(size))
		}
		return true
	})
	return apiVersion, kind, ok
}

// metadata adds the fields of the metadata.
func (s Sizes) metadata(message []byte) bool {
	names := metadataNames()
	return walk(message, func(number protowire.Number, size int, contents []byte) bool {
		name := names[number]
		switch {
		case name == "":
			name = OtherFields
		case name == annotationsField && isLastApplied(contents):
			name = LastApplied
		}
		s.add(name, int64(size))
		return true
	})
}

// isLastApplied reports whether an entry of a map has the name of kubectl's annotation.
func isLastApplied(entry []byte) (is bool) {
	walk(entry, func(number protowire.Number, _ int, contents []byte) bool {
		is = is || number == 1 && string(contents) == lastAppliedName
		return true
	})
	return is
}
