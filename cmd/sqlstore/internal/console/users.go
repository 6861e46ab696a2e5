package console

import (
	"net/http"
	"net/url"
)

const (
	usersPath = "/v1/users"
	authPath  = "/v1/auth"
	rolesPath = "/v1/roles"
	// mostGranted is how many roles of a user, or permissions of a role, the page shows.
	mostGranted = 20
)

// user is a user of the list/watch API.
type user struct {
	Name       string   `json:"name"`
	NoPassword bool     `json:"noPassword"`
	Roles      []string `json:"roles"`
}

// Shown returns the first roles, and More how many others there are.
func (u user) Shown() []string { return u.Roles[:min(len(u.Roles), mostGranted)] }

// More returns how many roles Shown leaves out.
func (u user) More() int64 { return int64(max(0, len(u.Roles)-mostGranted)) }

// role is a role of the list/watch API.
type role struct {
	Name        string       `json:"name"`
	Permissions []permission `json:"permissions"`
}

// Shown returns the first permissions.
func (r role) Shown() []permission { return r.Permissions[:min(len(r.Permissions), mostGranted)] }

// More returns how many permissions Shown leaves out.
func (r role) More() int64 { return int64(max(0, len(r.Permissions)-mostGranted)) }

// Lines returns how many lines of the table the role takes.
func (r role) Lines() int { return max(1, len(r.Shown())+min(1, int(r.More()))) }

// permission is a permission of a role. Of key, prefix and from one is there; to only with from.
type permission struct {
	Access string `json:"access"`

	Key          *string `json:"key"`
	KeyBase64    []byte  `json:"keyBase64"`
	Prefix       *string `json:"prefix"`
	PrefixBase64 []byte  `json:"prefixBase64"`
	From         *string `json:"from"`
	FromBase64   []byte  `json:"fromBase64"`
	To           *string `json:"to"`
	ToBase64     []byte  `json:"toBase64"`
}

// Verbs returns what the permission allows.
func (p *permission) Verbs() string {
	if p.Access == "readwrite" {
		return "read and write"
	}
	return p.Access
}

// Keys returns the keys that the permission is for.
func (p *permission) Keys() granted {
	switch {
	case p.Key != nil:
		return granted{Of: "key", Key: bytesOr(p.KeyBase64, *p.Key)}
	case p.Prefix != nil && *p.Prefix == "":
		return granted{Of: "all"}
	case p.Prefix != nil:
		return granted{Of: "prefix", Key: bytesOr(p.PrefixBase64, *p.Prefix)}
	case p.From == nil:
		return granted{}
	case p.To == nil:
		return granted{Of: "from", Key: bytesOr(p.FromBase64, *p.From)}
	}
	return granted{Of: "range", Key: bytesOr(p.FromBase64, *p.From), To: bytesOr(p.ToBase64, *p.To)}
}

// granted are the keys of a permission: one key, all, those with a prefix, those from a key on, or a range.
type granted struct{ Of, Key, To string }

// authorization is the data of the page of users and roles.
type authorization struct {
	Enabled              bool
	Own                  bool // only what the user is, and may do
	Users                chunkOf[user]
	Roles                chunkOf[role]
	UserToken, RoleToken string // of this page
}

// more leads to the other chunks of one list, and keeps that of the other list.
type more struct {
	Of, Next    string // the list, and the token of its next chunk
	Paged       bool   // not the first chunk
	Other, Kept string
}

// MoreUsers leads to the other users.
func (a *authorization) MoreUsers() more {
	return more{"users", a.Users.Metadata.Continue, a.UserToken != "", "roles", a.RoleToken}
}

// MoreRoles leads to the other roles.
func (a *authorization) MoreRoles() more {
	return more{"roles", a.Roles.Metadata.Continue, a.RoleToken != "", "users", a.UserToken}
}

// users shows users and roles.
func (c *Console) users(r *http.Request) (view, error) {
	var status struct {
		Enabled bool `json:"enabled"`
	}
	if err := c.api.get(r, authPath, nil, &status); err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	a := authorization{Enabled: status.Enabled, UserToken: q.Get("users"), RoleToken: q.Get("roles")}
	err := c.list(r, usersPath, a.UserToken, &a.Users)
	if err == nil {
		err = c.list(r, rolesPath, a.RoleToken, &a.Roles)
	}
	if is(err, http.StatusForbidden) && c.own(r, &a) == nil {
		err = nil
	}
	if err != nil {
		return view{}, err
	}
	return view{page: "users", title: "Users and roles", data: &a}, nil
}

// own fills in the user and its roles, which it may read without the role root, as in etcd.
func (c *Console) own(r *http.Request, a *authorization) error {
	var of user
	if err := c.api.get(r, usersPath+"/"+url.PathEscape(userOf(r)), nil, &of); err != nil {
		return err
	}
	a.Own, a.Users.Items = true, []user{of}
	for _, name := range of.Shown() {
		var granted role
		if err := c.api.get(r, rolesPath+"/"+url.PathEscape(name), nil, &granted); err != nil {
			return err
		}
		a.Roles.Items = append(a.Roles.Items, granted)
	}
	return nil
}
