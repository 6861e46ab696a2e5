package console

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
)

// isSecret reports whether a version holds a Secret, or what could be one. What kube-apiserver has encrypted does not:
// nobody can read it here.
func isSecret(v *changes.Version) bool {
	o := v.Object
	return o != nil && o.Format != kubeobject.Encrypted &&
		(strings.HasPrefix(o.Kind, "Secret") || strings.Contains(string(v.Row.Key), "/secrets/"))
}

// text returns a value for people, and whether parts of it are hidden.
func text(v *changes.Version, reveal bool) (shown string, hidden bool) {
	if !isSecret(v) || reveal {
		return v.Object.String(), false
	}
	if fields := v.Object.Fields; fields != nil && v.Object.Kind == "Secret" {
		if out, err := yaml.Marshal(hideFields(fields)); err == nil {
			return string(out), true
		}
	}
	return fmt.Sprintf("hidden (%d bytes)\n", len(v.Row.Value)), true
}

// hideFields returns a Secret without its values, and without those of its annotations: programs repeat the whole
// object there.
func hideFields(fields map[string]any) map[string]any {
	fields = maps.Clone(fields)
	for _, name := range []string{"data", "stringData"} {
		if values, ok := fields[name]; ok {
			fields[name] = hideValues(values)
		}
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"]; ok {
			metadata = maps.Clone(metadata)
			metadata["annotations"] = hideValues(annotations)
			fields["metadata"] = metadata
		}
	}
	return fields
}

func hideValues(values any) any {
	byName, ok := values.(map[string]any)
	if !ok {
		return "hidden"
	}
	byName = maps.Clone(byName)
	for name, value := range byName {
		byName[name] = fmt.Sprintf("hidden (%d characters)", len(fmt.Sprint(value)))
	}
	return byName
}

// hideChange returns a change without the values of a Secret.
func hideChange(c changes.Change, now, before *changes.Version) changes.Change {
	if !isSecret(now) && (before == nil || !isSecret(before)) {
		return c
	}
	var paths []string
	for _, f := range c.Fields {
		paths = append(paths, f.Path)
	}
	c.Fields, c.Note = nil, strings.Join(paths, ", ")
	return c
}
