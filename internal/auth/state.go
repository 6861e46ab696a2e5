package auth

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
)

// The types of which a state consists; see [backend.Auth].
type (
	// User is a user; see [backend.AuthUser].
	User = backend.AuthUser
	// Role is a role; see [backend.AuthRole].
	Role = backend.AuthRole
	// Permission is a permission of a role; see [backend.AuthPermission].
	Permission = backend.AuthPermission
	// Kind is the kind of a permission; see [backend.AuthKind].
	Kind = backend.AuthKind
)

// The kinds of permissions.
const (
	Read      = backend.AuthRead
	Write     = backend.AuthWrite
	ReadWrite = backend.AuthReadWrite
)

// Root is the name of the user and of the role that authentication needs. The role allows everything.
const Root = "root"

// State holds the users and roles. It is immutable, and so is everything that it returns.
type State struct {
	enabled    bool
	revision   uint64
	tokensFrom uint64
	users      map[string]*user
	roles      map[string]*Role
}

// user is a user with the rights that its roles give it. A change of a role replaces it.
type user struct {
	*User
	root   bool
	rights atomic.Pointer[rights] // nil until they are needed
}

// New returns the state that a database holds.
func New(a backend.Auth) *State {
	s := &State{
		enabled: a.Enabled, revision: a.Revision, tokensFrom: a.TokensFrom,
		users: make(map[string]*user, len(a.Users)), roles: make(map[string]*Role, len(a.Roles)),
	}
	for _, u := range a.Users {
		s.set(u)
	}
	for _, r := range a.Roles {
		s.roles[r.Name] = &r
	}
	return s
}

// set adds or replaces a user in a state that nobody else has seen yet.
func (s *State) set(u User) {
	_, root := slices.BinarySearch(u.Roles, Root)
	s.users[u.Name] = &user{User: &u, root: root}
}

// Stored returns the state as a database holds it.
func (s *State) Stored() backend.Auth {
	return backend.Auth{
		Enabled: s.enabled, Revision: s.revision, TokensFrom: s.tokensFrom, Users: s.Users(), Roles: s.Roles(),
	}
}

// edit returns a copy at the next revision, to be changed before anybody else sees it.
func (s *State) edit() *State {
	return &State{
		enabled: s.enabled, revision: s.revision + 1, tokensFrom: s.tokensFrom,
		users: maps.Clone(s.users), roles: maps.Clone(s.roles),
	}
}

// Enabled reports whether callers need rights.
func (s *State) Enabled() bool { return s.enabled }

// Revision returns the auth revision.
func (s *State) Revision() uint64 { return s.revision }

// User returns a user; ok is false if there is none of that name.
func (s *State) User(name string) (u User, ok bool) {
	if found := s.users[name]; found != nil {
		return *found.User, true
	}
	return User{}, false
}

// Role returns a role as it is stored; ok is false if there is none of that name.
func (s *State) Role(name string) (r Role, ok bool) {
	if found := s.roles[name]; found != nil {
		return *found, true
	}
	return Role{}, false
}

// Granted returns what a role allows; ok is false if there is none of that name. The role root allows everything,
// whatever is granted to it.
func (s *State) Granted(name string) (r Role, ok bool) {
	if r, ok = s.Role(name); ok && name == Root {
		r.Permissions = []Permission{{Kind: ReadWrite, Key: []byte{}, End: []byte{0}}}
	}
	return r, ok
}

// Users returns all users in the order of their names.
func (s *State) Users() []User {
	all := make([]User, 0, len(s.users))
	for _, name := range slices.Sorted(maps.Keys(s.users)) {
		all = append(all, *s.users[name].User)
	}
	return all
}

// Roles returns all roles in the order of their names.
func (s *State) Roles() []Role {
	all := make([]Role, 0, len(s.roles))
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		all = append(all, *s.roles[name])
	}
	return all
}

// HasRole reports whether a user has a role.
func (s *State) HasRole(name, role string) bool {
	u := s.users[name]
	return u != nil && slices.Contains(u.Roles, role)
}

// Since returns what has changed since old. The two must stem from the same state.
func (s *State) Since(old *State) *backend.AuthChange {
	c := &backend.AuthChange{Enabled: s.enabled, Revision: s.revision, TokensFrom: s.tokensFrom}
	for _, name := range slices.Sorted(maps.Keys(s.users)) {
		u, was := s.users[name], old.users[name]
		if was == nil || was.User != u.User {
			c.Users = append(c.Users, *u.User)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		if r := s.roles[name]; old.roles[name] != r {
			c.Roles = append(c.Roles, *r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.users)) {
		if s.users[name] == nil {
			c.DroppedUsers = append(c.DroppedUsers, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.roles)) {
		if s.roles[name] == nil {
			c.DroppedRoles = append(c.DroppedRoles, name)
		}
	}
	return c
}
