package kubeobject

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// names are the names of a message's fields.
type names map[protowire.Number]string

// unknownKind has what every kind has.
var unknownKind = names{1: metadataField}

// wireNames returns the names of the fields of all built-in kinds.
var wireNames = sync.OnceValue(func() map[schema.GroupVersionKind]names {
	all := map[schema.GroupVersionKind]names{}
	for kind, goType := range builtin().scheme.AllKnownTypes() {
		if _, isObject := goType.FieldByName("ObjectMeta"); isObject {
			all[kind] = namesOf(goType, "")
		}
	}
	return all
})

// metadataNames returns the names of the fields of the metadata.
var metadataNames = sync.OnceValue(func() names {
	return namesOf(reflect.TypeFor[metav1.ObjectMeta](), metadataField+".")
})

// namesOf returns the names that the fields of a Go type have in JSON, by their numbers in protobuf.
func namesOf(goType reflect.Type, above string) names {
	all := names{}
	for i := range goType.NumField() {
		tag := goType.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		parts := strings.Split(tag.Get("protobuf"), ",")
		if len(parts) < 2 || name == "" {
			continue
		}
		if number, err := strconv.ParseInt(parts[1], 10, 32); err == nil {
			all[protowire.Number(number)] = above + name
		}
	}
	return all
}
