package console

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
)

// lastApplied is the annotation in which kubectl repeats a whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// isSecret reports whether a value is a Secret. What kube-apiserver has encrypted is not: nobody can read it here.
func isSecret(o *kubeobject.Object) bool { return o.Kind == "Secret" && o.APIVersion == "v1" }

// text returns a value for people, and whether parts of it are hidden.
func text(row *backend.Row, reveal bool) (shown string, hidden bool) {
	o := kubeobject.Decode(row.Value, row.ModRevision)
	if !isSecret(o) || reveal {
		return o.String(), false
	}
	if o.Fields == nil {
		return fmt.Sprintf("# a Secret of %d bytes that cannot be decoded: %s\n", len(row.Value), o.Problem), true
	}
	out, err := yaml.Marshal(hideFields(o.Fields))
	if err != nil {
		return fmt.Sprintf("# a Secret that cannot be shown: %v\n", err), true
	}
	return string(out), true
}

// hideFields returns a Secret without its values.
func hideFields(fields map[string]any) map[string]any {
	fields = maps.Clone(fields)
	for _, name := range []string{"data", "stringData"} {
		if values, ok := fields[name].(map[string]any); ok {
			values = maps.Clone(values)
			for key, value := range values {
				values[key] = hiddenValue(value)
			}
			fields[name] = values
		}
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
		annotations = maps.Clone(annotations)
		annotations[lastApplied] = hiddenValue(annotations[lastApplied])
		metadata = maps.Clone(metadata)
		metadata["annotations"] = annotations
		fields["metadata"] = metadata
	}
	return fields
}

func hiddenValue(value any) string {
	return fmt.Sprintf("hidden (%d characters)", len(fmt.Sprint(value)))
}

// hideChange returns a change without the values of a Secret.
func hideChange(c changes.Change, row, prev *backend.Row) changes.Change {
	secret := !row.Deleted && isSecret(kubeobject.Decode(row.Value, row.ModRevision)) ||
		prev != nil && isSecret(kubeobject.Decode(prev.Value, prev.ModRevision))
	if !secret {
		return c
	}
	c.Note = ""
	var paths []string
	for _, f := range c.Fields {
		paths = append(paths, f.Path)
	}
	c.Fields = nil
	if len(paths) > 0 {
		c.Note = strings.Join(paths, ", ")
	}
	return c
}
