package backend

import (
	"bytes"
	"slices"
)

// Auth verifies the users and roles.
func (i *Inspection) Auth(a *Auth) {
	if a.Revision == 0 {
		i.Problem("the table auth has no row")
		return
	}
	if a.TokensFrom > a.Revision {
		i.Problem("the auth revision is %d, but authentication was disabled at %d", a.Revision, a.TokensFrom)
	}
	admin := false
	for _, u := range a.Users {
		if u.TokensFrom > a.Revision {
			i.Problem("the auth revision is %d, but the user %q has changed at %d", a.Revision, u.Name, u.TokensFrom)
		}
		for _, role := range u.Roles {
			known := slices.ContainsFunc(a.Roles, func(r AuthRole) bool { return r.Name == role })
			if !known && role != "root" {
				i.Problem("the user %q has the role %q, which is missing", u.Name, role)
			}
			admin = admin || u.Name == "root" && role == "root"
		}
	}
	if a.Enabled && !admin {
		i.Problem("authentication is enabled, but no user root has the role root")
	}
	for _, r := range a.Roles {
		for _, p := range r.Permissions {
			unbounded := len(p.End) == 0 || bytes.Equal(p.End, []byte{0})
			if p.Kind < AuthRead || p.Kind > AuthReadWrite || len(p.Key) == 0 ||
				!unbounded && bytes.Compare(p.Key, p.End) >= 0 {
				i.Problem("the role %q has a permission of kind %d for [%q, %q)", r.Name, p.Kind, p.Key, p.End)
			}
		}
	}
}
