package changes

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

// What a change did.
const (
	Created = "created"
	Updated = "updated"
	Deleted = "deleted"
)

// mostFields is how many changed fields a line shows.
const mostFields = 4

// Change is what a version of a key changed.
type Change struct {
	Action string  `json:"action"`
	Kind   string  `json:"kind,omitempty"`
	Fields []Field `json:"fields,omitempty"` // of an object that was updated
	Note   string  `json:"note,omitempty"`   // if there are no fields
}

// Version is a version of a key with its decoded value, which a deletion has none of.
type Version struct {
	Row    *backend.Row
	Object *kubeobject.Object
}

// Decode decodes a version.
func Decode(row *backend.Row) *Version {
	v := &Version{Row: row}
	if !row.Deleted {
		v.Object = kubeobject.Decode(row.Value, row.ModRevision)
	}
	return v
}

// Describe compares a version with the one before it, which is nil if there was none, or if nobody knows.
func Describe(row, prev *backend.Row) Change {
	if prev == nil {
		return Compare(Decode(row), nil)
	}
	return Compare(Decode(row), Decode(prev))
}

// Compare is Describe for decoded versions.
func Compare(version, before *Version) Change {
	row, now := version.Row, version.Object
	var prev *backend.Row
	if before != nil {
		prev = before.Row
	}
	if row.Deleted {
		c := Change{Action: Deleted}
		if prev != nil && before.Object != nil {
			c.Kind = kindOf(before.Object)
		}
		return c
	}
	c := Change{Action: Updated, Kind: kindOf(now)}
	if row.Version == 1 {
		c.Action = Created
	}
	switch {
	case row.Version == 1 && now.Format == kubeobject.Encrypted, prev == nil && row.Version != 1:
		c.Note = summary(now, row)
	case row.Version == 1 || prev == nil:
		if now.Fields == nil {
			c.Note = summary(now, row)
		}
	default:
		c.Fields, c.Note = differences(before.Object, now, prev, row)
	}
	return c
}

// differences returns the fields that differ, or else a note.
func differences(was, now *kubeobject.Object, prev, row *backend.Row) ([]Field, string) {
	switch {
	case bytes.Equal(prev.Value, row.Value) && prev.Lease != row.Lease:
		return nil, fmt.Sprintf("lease %s → %s", show.Lease(prev.Lease), show.Lease(row.Lease))
	case bytes.Equal(prev.Value, row.Value):
		return nil, "same value"
	case was.Fields != nil && now.Fields != nil:
		fields := Fields(withoutRevision(was.Fields), withoutRevision(now.Fields))
		if len(fields) == 0 {
			return nil, "no field differs but managedFields"
		}
		return fields, ""
	case was.Format == kubeobject.Text && now.Format == kubeobject.Text:
		return nil, Field{From: string(prev.Value), To: string(row.Value)}.Values()
	case now.Format == kubeobject.Encrypted && was.Cipher() != now.Cipher():
		return nil, "now encrypted: " + now.Cipher()
	}
	return nil, fmt.Sprintf("%d → %d bytes", len(prev.Value), len(row.Value))
}

// withoutRevision returns an object without its resourceVersion, which differs in every version.
func withoutRevision(fields map[string]any) map[string]any {
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return fields
	}
	fields, metadata = maps.Clone(fields), maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	fields["metadata"] = metadata
	return fields
}

// kindOf names the kind of an object, "" if it is none.
func kindOf(o *kubeobject.Object) string {
	if o.Kind == "" {
		return ""
	}
	return o.APIVersion + " " + o.Kind
}

// summary describes a whole value in a few words.
func summary(o *kubeobject.Object, row *backend.Row) string {
	switch {
	case o.Format == kubeobject.Encrypted:
		return "encrypted: " + o.Cipher()
	case o.Format == kubeobject.Text:
		return Field{To: string(row.Value)}.Values()
	case o.Kind != "":
		return ""
	}
	return fmt.Sprintf("%s, %s", o.Format, show.Number(len(row.Value), "byte"))
}

// Line returns the change for a table.
func (c *Change) Line() string {
	text := c.Action
	detail := c.Note
	if len(c.Fields) > 0 {
		detail = Line(c.Fields, mostFields)
	}
	if detail != "" {
		text += ": " + detail
	}
	return text
}
