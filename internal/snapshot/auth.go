package snapshot

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sqlstore/sqlstore/internal/auth"
)

// The buckets of users and roles.
var (
	bucketAuth  = []byte("auth")
	bucketUsers = []byte("authUsers")
	bucketRoles = []byte("authRoles")
)

// users returns the entries of users and roles, which are etcd's messages User and Role.
func users(state *auth.State) []pair {
	pairs := []pair{{bucket: bucketAuth, key: []byte("authRevision"), value: number(int64(state.Revision()))}}
	if state.Enabled() {
		pairs = append(pairs, pair{bucket: bucketAuth, key: []byte("authEnabled"), value: []byte{1}})
	}
	for _, u := range state.Users() {
		pairs = append(pairs, pair{bucket: bucketUsers, key: []byte(u.Name), value: appendUser(nil, &u)})
	}
	for _, r := range state.Roles() {
		pairs = append(pairs, pair{bucket: bucketRoles, key: []byte(r.Name), value: appendRole(nil, &r)})
	}
	return pairs
}

func appendUser(b []byte, u *auth.User) []byte {
	const fieldName, fieldPassword, fieldRoles, fieldOptions, fieldNoPassword = 1, 2, 3, 4, 1
	b = appendBytes(b, fieldName, []byte(u.Name))
	b = appendBytes(b, fieldPassword, u.Hash)
	for _, role := range u.Roles {
		b = protowire.AppendString(protowire.AppendTag(b, fieldRoles, protowire.BytesType), role)
	}
	var options []byte
	if u.NoPassword {
		options = appendInt(nil, fieldNoPassword, 1)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, fieldOptions, protowire.BytesType), options) // even if empty
}

func appendRole(b []byte, r *auth.Role) []byte {
	const fieldName, fieldPermission, fieldKind, fieldKey, fieldEnd = 1, 2, 1, 2, 3
	b = appendBytes(b, fieldName, []byte(r.Name))
	for _, p := range r.Permissions {
		permission := appendInt(nil, fieldKind, int64(p.Kind))
		permission = appendBytes(permission, fieldKey, p.Key)
		permission = appendBytes(permission, fieldEnd, p.End)
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldPermission, protowire.BytesType), permission)
	}
	return b
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
