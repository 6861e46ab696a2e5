package auth

import "slices"

// MaxName is the greatest size of the name of a user or role in bytes, that of a key of bbolt: a snapshot in etcd's
// format could not contain a longer one.
const MaxName = 32768

// AddUser adds a user. Hash is the bcrypt hash of its password, unless it has none. Errors: [ErrUserEmpty],
// [ErrNameTooLong], [ErrUserExists].
type AddUser struct {
	Name       string
	Hash       []byte
	NoPassword bool
}

func (c AddUser) apply(s *State) (*State, error) {
	switch {
	case c.Name == "":
		return nil, ErrUserEmpty
	case len(c.Name) > MaxName:
		return nil, ErrNameTooLong
	case s.users[c.Name] != nil:
		return nil, ErrUserExists
	}
	if c.NoPassword {
		c.Hash = nil
	}
	next := s.edit()
	next.set(User{Name: c.Name, Hash: c.Hash, NoPassword: c.NoPassword, TokensFrom: next.revision})
	return next, nil
}

// DeleteUser deletes a user and ends its tokens. Errors: [ErrInvalidManagement], [ErrUserNotFound].
type DeleteUser struct{ Name string }

func (c DeleteUser) apply(s *State) (*State, error) {
	switch {
	case s.enabled && c.Name == Root:
		return nil, ErrInvalidManagement
	case s.users[c.Name] == nil:
		return nil, ErrUserNotFound
	}
	next := s.edit()
	delete(next.users, c.Name)
	return next, nil
}

// ChangePassword changes a user's password and ends its tokens. A user without a password stays without. Errors:
// [ErrUserNotFound].
type ChangePassword struct {
	Name string
	Hash []byte
}

func (c ChangePassword) apply(s *State) (*State, error) {
	old := s.users[c.Name]
	if old == nil {
		return nil, ErrUserNotFound
	}
	if old.NoPassword {
		c.Hash = nil
	}
	next := s.edit()
	u := *old.User
	u.Hash, u.TokensFrom = c.Hash, next.revision
	next.set(u)
	return next, nil
}

// GrantRole gives a user a role. The role root need not exist. Errors: [ErrUserNotFound], [ErrRoleNotFound].
type GrantRole struct{ User, Role string }

func (c GrantRole) apply(s *State) (*State, error) {
	old := s.users[c.User]
	switch {
	case old == nil:
		return nil, ErrUserNotFound
	case c.Role != Root && s.roles[c.Role] == nil:
		return nil, ErrRoleNotFound
	}
	at, has := slices.BinarySearch(old.Roles, c.Role)
	if has {
		return s, nil
	}
	next := s.edit()
	u := *old.User
	u.Roles = slices.Insert(slices.Clone(u.Roles), at, c.Role)
	next.set(u)
	return next, nil
}

// RevokeRole takes a role from a user. Errors: [ErrInvalidManagement], [ErrUserNotFound], [ErrRoleNotGranted].
type RevokeRole struct{ User, Role string }

func (c RevokeRole) apply(s *State) (*State, error) {
	if s.enabled && c.User == Root && c.Role == Root {
		return nil, ErrInvalidManagement
	}
	old := s.users[c.User]
	switch {
	case old == nil:
		return nil, ErrUserNotFound
	case !slices.Contains(old.Roles, c.Role):
		return nil, ErrRoleNotGranted
	}
	next := s.edit()
	next.set(without(*old.User, c.Role))
	return next, nil
}

// without returns u without a role.
func without(u User, role string) User {
	u.Roles = slices.DeleteFunc(slices.Clone(u.Roles), func(r string) bool { return r == role })
	return u
}
