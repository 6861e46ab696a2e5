// Package load writes many objects of several kinds through a kube-apiserver, watches and lists them at the same time,
// and checks that the watches and lists show what was written.
//
// Each object has one writer, which records every acknowledged change with the object as in the answer. A History of
// changes is therefore exact: every watcher must see all changes of an object, in that order, with that content, and no
// others; every list must show the state at its resource version.
package load

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// payloadAnnotation distinguishes the versions of objects.
const payloadAnnotation = "sqlstore.example/payload"

// Kind is a resource that the load writes.
type Kind struct {
	schema.GroupVersionResource
	Kind string
	// fill sets what an object of the kind needs in addition to its metadata.
	fill func(object map[string]any, payload string)
}

// The kinds of the load: the large and frequent ones of a cluster.
var (
	ConfigMaps = Kind{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:                 "ConfigMap",
		fill: func(object map[string]any, payload string) {
			object["data"] = map[string]any{"payload": payload, "file.yaml": strings.Repeat("key: value\n", 80)}
		},
	}
	Secrets = Kind{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
		Kind:                 "Secret",
		fill: func(object map[string]any, payload string) {
			object["data"] = map[string]any{"payload": base64.StdEncoding.EncodeToString([]byte(payload))}
		},
	}
	Pods = Kind{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:                 "Pod",
		fill: func(object map[string]any, payload string) {
			object["spec"] = map[string]any{
				"containers": []any{map[string]any{"name": "app", "image": "registry.example/app:1"}},
			}
		},
	}
	Leases = Kind{
		GroupVersionResource: schema.GroupVersionResource{
			Group: "coordination.k8s.io", Version: "v1",
			Resource: "leases",
		},
		Kind: "Lease",
		fill: func(object map[string]any, payload string) {
			object["spec"] = map[string]any{"holderIdentity": payload, "leaseDurationSeconds": int64(40)}
		},
	}
	Kinds = []Kind{ConfigMaps, Secrets, Pods, Leases}
)

// New returns an object of the kind whose content depends on the payload.
func (k Kind) New(namespace, name, payload string) *unstructured.Unstructured {
	object := map[string]any{
		"metadata": map[string]any{
			"namespace":   namespace,
			"name":        name,
			"annotations": map[string]any{payloadAnnotation: payload},
		},
	}
	k.fill(object, payload)
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind))
	return u
}

// Payload returns the payload of an object that New made and others may have changed.
func Payload(u *unstructured.Unstructured) string { return u.GetAnnotations()[payloadAnnotation] }
