package kubeobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

var (
	protobufPrefix = []byte("k8s\x00")
	cborPrefix     = []byte{0xd9, 0xd9, 0xf7} // the tag of self-described CBOR
)

// errUnknownKind is the problem of an object of a kind that this version of the command does not know.
var errUnknownKind = errors.New("unknown kind")

// fromProtobuf decodes an envelope and the object in it.
func fromProtobuf(value []byte) decoded {
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(value[len(protobufPrefix):]); err != nil {
		return decoded{err: fmt.Errorf("decode the envelope: %w", err)}
	}
	d := decoded{apiVersion: envelope.APIVersion, kind: envelope.Kind}
	if !builtin().scheme.Recognizes(schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind)) {
		d.err = errUnknownKind
		return d
	}
	object, _, err := builtin().typed.Decode(value, nil, nil)
	if err == nil {
		addDefaults(object)
		d.object, err = asClientSees(object)
	}
	if err != nil {
		d.err = fmt.Errorf("decode the object: %w", err)
	}
	return d
}

// addDefaults adds what kube-apiserver adds whenever it reads an object, because it stores a new one without.
func addDefaults(object runtime.Object) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.ClaimPending
		}
	case *schedulingv1alpha2.PodGroup:
		if o.Spec.DisruptionMode == nil {
			o.Spec.DisruptionMode = new(schedulingv1alpha2.DisruptionModePod)
		}
	}
}

// asClientSees converts an object to the fields that a client decodes from the server's JSON.
func asClientSees(object runtime.Object) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(text)
}

// fromJSON decodes JSON. It is an object if it has an apiVersion and a kind.
func fromJSON(value []byte) decoded {
	var h head
	if err := json.Unmarshal(value, &h); err != nil || h.APIVersion == "" || h.Kind == "" {
		return decoded{}
	}
	d := decoded{apiVersion: h.APIVersion, kind: h.Kind}
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if want, other := served[gv.Group]; err == nil && other {
		d.object, err = converted(value, want)
	} else {
		d.object = &unstructured.Unstructured{}
		err = d.object.UnmarshalJSON(value)
	}
	if err != nil {
		d.object, d.err = nil, err
	}
	return d
}

// converted decodes JSON and converts it to another version of its group.
func converted(value []byte, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	// The internal version is the one that converts to all others.
	object, err := runtime.Decode(builtin().codecs.UniversalDecoder(), value)
	if err != nil {
		return nil, err
	}
	text, err := runtime.Encode(builtin().codecs.LegacyCodec(to), object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(text)
}

// fromCBOR decodes CBOR, which kube-apiserver can store custom resources in.
func fromCBOR(value []byte) decoded {
	fields := map[string]any{}
	if err := direct.Unmarshal(value, &fields); err != nil {
		return decoded{err: err}
	}
	u := &unstructured.Unstructured{Object: fields}
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return decoded{}
	}
	return decoded{object: u}
}

// Kind is the type of an object and its namespace.
type Kind struct{ APIVersion, Kind, Namespace string }

// KindOf returns the kind of a value without decoding all of it: zero for what is no Kubernetes object, and the kind
// "encrypted" for what is encrypted.
func KindOf(value []byte) Kind {
	switch {
	case bytes.HasPrefix(value, encryptedPrefix):
		return Kind{Kind: string(Encrypted)}
	case bytes.HasPrefix(value, protobufPrefix):
		var envelope runtime.Unknown
		if envelope.Unmarshal(value[len(protobufPrefix):]) != nil {
			return Kind{}
		}
		// Every kind has its metadata in the same field, and unknown fields are skipped.
		var o metav1.PartialObjectMetadata
		if o.Unmarshal(envelope.Raw) != nil {
			o.Namespace = ""
		}
		return Kind{envelope.APIVersion, envelope.Kind, o.Namespace}
	case bytes.HasPrefix(value, cborPrefix):
		d := fromCBOR(value)
		if d.object == nil {
			return Kind{}
		}
		return Kind{d.object.GetAPIVersion(), d.object.GetKind(), d.object.GetNamespace()}
	}
	var h head
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &h) != nil || h.APIVersion == "" || h.Kind == "" {
		return Kind{}
	}
	return Kind{h.APIVersion, h.Kind, h.Metadata.Namespace}
}
