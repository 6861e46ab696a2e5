// Package changes says what differs between two versions of a value: fields of an object, or lines of a text.
package changes

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Field is a field that differs between two versions of an object.
type Field struct {
	Path string `json:"path"`
	From any    `json:"from,omitempty"` // nil if the field is new
	To   any    `json:"to,omitempty"`   // nil if the field is gone
}

// Fields returns the fields that differ between two objects, in the order of their paths. Lists of objects that have
// names are compared by name, others by position.
func Fields(from, to map[string]any) []Field {
	var found []Field
	compare("", from, to, &found)
	return found
}

func compare(path string, from, to any, found *[]Field) {
	if reflect.DeepEqual(from, to) {
		return
	}
	if a, b := named(from), named(to); a != nil && b != nil {
		for _, key := range union(a, b) {
			compare(path+"["+key+"]", a[key], b[key], found)
		}
		return
	}
	switch a := from.(type) {
	case map[string]any:
		if b, ok := to.(map[string]any); ok {
			for _, key := range union(a, b) {
				compare(join(path, key), a[key], b[key], found)
			}
			return
		}
	case []any:
		if b, ok := to.([]any); ok && len(a) == len(b) {
			for i := range a {
				compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], found)
			}
			return
		}
	}
	*found = append(*found, Field{Path: path, From: from, To: to})
}

// union returns the sorted keys of both maps.
func union(a, b map[string]any) []string {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// identities are the fields that name the items of a list.
var identities = []string{"name", "type", "uid", "ip"}

// named returns the items of a list by the first of the identities that all of them have, each another one; nil if
// there is none.
func named(value any) map[string]any {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil
	}
	for _, identity := range identities {
		items := make(map[string]any, len(list))
		for _, item := range list {
			fields, _ := item.(map[string]any)
			if name, ok := fields[identity].(string); ok {
				items[name] = item
			}
		}
		if len(items) == len(list) {
			return items
		}
	}
	return nil
}

// plain are the keys that need no quotes in a path.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func join(path, key string) string {
	switch {
	case !plain.MatchString(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// shown is how much of a field's value a line shows.
const shown = 40

// String returns the change as one line.
func (f Field) String() string {
	switch {
	case f.From == nil:
		return fmt.Sprintf("+%s: %s", f.Path, short(f.To))
	case f.To == nil:
		return fmt.Sprintf("-%s", f.Path)
	}
	return fmt.Sprintf("%s: %s → %s", f.Path, short(f.From), short(f.To))
}

// short returns a value in JSON, cut to what fits into a line.
func short(value any) string {
	var text strings.Builder
	plainly := json.NewEncoder(&text)
	plainly.SetEscapeHTML(false)
	if plainly.Encode(value) != nil {
		return "?"
	}
	runes := []rune(strings.TrimSpace(text.String()))
	if s, ok := value.(string); ok && plain.MatchString(s) {
		runes = []rune(s)
	}
	if len(runes) > shown {
		return string(runes[:shown-1]) + "…"
	}
	return string(runes)
}

// Line returns fields as one line: the first of them, and how many more there are.
func Line(fields []Field, most int) string {
	var parts []string
	for i := range fields[:min(most, len(fields))] {
		parts = append(parts, fields[i].String())
	}
	if more := len(fields) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// Values returns the change of a whole value as one line, without a path.
func (f Field) Values() string {
	if f.From == nil {
		return short(f.To)
	}
	return short(f.From) + " → " + short(f.To)
}
