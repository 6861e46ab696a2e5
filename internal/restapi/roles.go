package restapi

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// roles answers with the roles in order of their names.
func (c *call) roles() error {
	after, err := c.opts.last("RoleList")
	if err != nil {
		return err
	}
	state, err := c.rightsOf((*auth.State).IsAdmin)
	if err != nil {
		return err
	}
	return answerNamed(c, "RoleList", after, state.Roles(), func(r *auth.Role) string { return r.Name }, sizeOf,
		func(b []byte, r *auth.Role) []byte {
			granted, _ := state.Granted(r.Name)
			return appendRole(b, &granted)
		})
}

// sizeOf returns the bytes of the names in a role.
func sizeOf(r *auth.Role) int {
	n := len(r.Name)
	for i := range r.Permissions {
		n += len(r.Permissions[i].Key) + len(r.Permissions[i].End)
	}
	return n
}

// role answers with one role.
func (c *call) role() error {
	state, err := c.rightsOf(func(s *auth.State, id auth.Identity) error { return s.CanSeeRole(id, c.to.name) })
	if err != nil {
		return err
	}
	r, ok := state.Granted(c.to.name)
	if !ok {
		return absent("role", c.to.name)
	}
	b := getBuffer()
	defer putBuffer(b)
	*b = appendRole(append(*b, `{"kind":"Role","apiVersion":"sqlstore/v1",`...), &r)
	*b = append(*b, '}', '\n')
	return c.answer(http.StatusOK, *b)
}

// appendRole appends the members of a role.
func appendRole(b []byte, r *auth.Role) []byte {
	b = appendString(append(b, `"name":`...), []byte(r.Name))
	b = append(b, `,"permissions":[`...)
	for i := range r.Permissions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPermission(b, &r.Permissions[i])
	}
	return append(b, ']')
}

// access says what a permission allows.
var access = map[auth.Kind]string{auth.Read: "read", auth.Write: "write", auth.ReadWrite: "readwrite"}

// all is the first of all keys, and, as the end of a range, means that it has none.
var all = []byte{0}

// appendPermission appends a permission with the keys that it is for: one key, those with a prefix, those from a key
// on, or a range.
func appendPermission(b []byte, p *auth.Permission) []byte {
	b = append(b, `{"access":"`...)
	if name, ok := access[p.Kind]; ok {
		b = append(b, name...)
	} else { // a client can grant any number, which then allows nothing
		b = strconv.AppendInt(b, int64(p.Kind), 10)
	}
	b = append(b, `",`...)
	switch {
	case len(p.End) == 0:
		b = appendBytes(b, "key", p.Key)
	case bytes.Equal(p.Key, all) && bytes.Equal(p.End, all): // as etcdctl grants the empty prefix
		b = append(b, `"prefix":""`...)
	case bytes.Equal(p.End, store.PrefixEnd(p.Key)):
		b = appendBytes(b, "prefix", p.Key)
	case bytes.Equal(p.End, all):
		b = appendBytes(b, "from", p.Key)
	default:
		b = appendBytes(b, "from", p.Key)
		b = appendBytes(append(b, ','), "to", p.End)
	}
	return append(b, '}')
}
