// Package tally counts keys, bytes and writes by prefix, kind, namespace and field.
package tally

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
)

// Below returns the entry that a key belongs to in a listing of a prefix, as a directory's: the key up to the next
// slash, or the whole key if there is none. A slash right after the prefix does not count.
func Below(prefix, key string) string {
	rest, start := key[len(prefix):], 0
	if strings.HasPrefix(rest, "/") && !strings.HasSuffix(prefix, "/") {
		start = 1
	}
	if i := strings.IndexByte(rest[start:], '/'); i >= 0 {
		return key[:len(prefix)+start+i+1]
	}
	return key
}

// Entry is one line of a listing.
type Entry struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty"` // if the name is not UTF-8: JSON then has U+FFFD in it
	Keys       int64  `json:"keys"`
	Bytes      int64  `json:"bytes"` // of keys and values
}

// base64Of returns a name in base64, "" if it is UTF-8.
func base64Of(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name))
}

// Listing lists a prefix like a directory.
type Listing struct {
	Prefix  string
	Entries []Entry
}

// Add counts a row. Rows come in key order.
func (l *Listing) Add(r *backend.Row) {
	name := Below(l.Prefix, string(r.Key))
	if n := len(l.Entries); n == 0 || l.Entries[n-1].Name != name {
		l.Entries = append(l.Entries, Entry{Name: name, NameBase64: base64Of(name)})
	}
	e := &l.Entries[len(l.Entries)-1]
	e.Keys, e.Bytes = e.Keys+1, e.Bytes+r.Size()
}

// Group is what a prefix, kind or namespace holds and what was written to it.
type Group struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty"` // if the name is not UTF-8
	Keys       int64  `json:"keys"`                 // that exist
	Bytes      int64  `json:"bytes"`                // of their newest versions, keys included
	// Writes counts the versions written, Deletes the deletions, and Written the bytes of both.
	Writes  int64 `json:"writes"`
	Deletes int64 `json:"deletes"`
	Written int64 `json:"written"`
}

// Top counts by group.
type Top struct {
	name   func(key, value []byte) string
	groups map[string]*Group
}

// NewTop returns a Top of groups that name names. It gets the value that a deletion superseded.
func NewTop(name func(key, value []byte) string) *Top { return &Top{name, map[string]*Group{}} }

func (t *Top) group(key, value []byte) *Group {
	name := t.name(key, value)
	g := t.groups[name]
	if g == nil {
		g = &Group{Name: name, NameBase64: base64Of(name)}
		t.groups[name] = g
	}
	return g
}

// Live counts a row that exists.
func (t *Top) Live(r *backend.Row) {
	g := t.group(r.Key, r.Value)
	g.Keys, g.Bytes = g.Keys+1, g.Bytes+r.Size()
}

// Superseded takes back what Live counted for a row.
func (t *Top) Superseded(r *backend.Row) {
	g := t.group(r.Key, r.Value)
	g.Keys, g.Bytes = g.Keys-1, g.Bytes-r.Size()
}

// Written counts a change.
func (t *Top) Written(c *backend.Change) {
	value := c.Row.Value
	if c.Row.Deleted && c.Prev != nil {
		value = c.Prev.Value
	}
	g := t.group(c.Row.Key, value)
	if c.Row.Deleted {
		g.Deletes++
	} else {
		g.Writes++
	}
	g.Written += c.Row.Size()
}

// Sorts are the columns that groups can be sorted by, the largest first.
var Sorts = map[string]func(*Group) int64{
	"bytes":   func(g *Group) int64 { return g.Bytes },
	"keys":    func(g *Group) int64 { return g.Keys },
	"writes":  func(g *Group) int64 { return g.Writes + g.Deletes },
	"written": func(g *Group) int64 { return g.Written },
}

// Largest returns the groups with the most of what by returns, up to limit; 0 is all of them.
func (t *Top) Largest(by func(*Group) int64, limit int) []Group {
	return largest(t.groups, by, limit)
}

// ByPrefix names the groups of keys by their prefix, some levels below another one.
func ByPrefix(prefix string, levels int) func(key, value []byte) string {
	return func(key, _ []byte) string {
		name, whole := prefix, string(key)
		for range levels {
			if name = Below(name, whole); name == whole {
				break
			}
		}
		return name
	}
}

// Names of groups of what is no readable Kubernetes object.
const (
	Other     = "(no Kubernetes object)"
	Encrypted = "(encrypted)"
	Cluster   = "(no namespace)"
)

// ByKind names groups by the objects' kind.
func ByKind(_, value []byte) string {
	switch k := kubeobject.KindOf(value); {
	case k.Kind == string(kubeobject.Encrypted) && k.APIVersion == "":
		return Encrypted
	case k.Kind == "":
		return Other
	default:
		return k.APIVersion + " " + k.Kind
	}
}

// ByNamespace names groups by the objects' namespace.
func ByNamespace(_, value []byte) string {
	switch k := kubeobject.KindOf(value); {
	case k.Kind == string(kubeobject.Encrypted) && k.APIVersion == "":
		return Encrypted
	case k.Kind == "":
		return Other
	case k.Namespace == "":
		return Cluster
	default:
		return k.Namespace
	}
}
