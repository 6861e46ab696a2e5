package auth

import (
	"bytes"
	"slices"
	"sort"
)

// AddRole adds a role without permissions. Errors: [ErrRoleEmpty], [ErrNameTooLong], [ErrRoleExists].
type AddRole struct{ Name string }

func (c AddRole) apply(s *State) (*State, error) {
	switch {
	case c.Name == "":
		return nil, ErrRoleEmpty
	case len(c.Name) > MaxName:
		return nil, ErrNameTooLong
	case s.roles[c.Name] != nil:
		return nil, ErrRoleExists
	}
	next := s.edit()
	next.setRole(Role{Name: c.Name})
	return next, nil
}

// DeleteRole deletes a role and takes it from all users. Errors: [ErrInvalidManagement], [ErrRoleNotFound].
type DeleteRole struct{ Name string }

func (c DeleteRole) apply(s *State) (*State, error) {
	switch {
	case s.enabled && c.Name == Root:
		return nil, ErrInvalidManagement
	case s.roles[c.Name] == nil:
		return nil, ErrRoleNotFound
	}
	next := s.edit()
	delete(next.roles, c.Name)
	for _, u := range s.users {
		if slices.Contains(u.Roles, c.Name) {
			next.set(without(*u.User, c.Name))
		}
	}
	return next, nil
}

// GrantPermission gives a role a permission. Missing stands for a request without one. Errors: [ErrPermissionNotGiven],
// [ErrInvalidManagement], [ErrRoleNotFound].
type GrantPermission struct {
	Role       string
	Permission Permission
	Missing    bool
}

func (c GrantPermission) apply(s *State) (*State, error) {
	p := c.Permission
	switch {
	case c.Missing:
		return nil, ErrPermissionNotGiven
	case !valid(p.Key, p.End):
		return nil, ErrInvalidManagement
	}
	old := s.roles[c.Role]
	if old == nil {
		return nil, ErrRoleNotFound
	}
	all := slices.Clone(old.Permissions)
	// As in etcd, only the first permission that begins with the key can be replaced.
	at := sort.Search(len(all), func(i int) bool { return bytes.Compare(all[i].Key, p.Key) >= 0 })
	if at < len(all) && bytes.Equal(all[at].Key, p.Key) && bytes.Equal(all[at].End, p.End) {
		all[at].Kind = p.Kind
	} else {
		all = append(all, p)
		sort.Sort(byKey(all)) // etcd's order of permissions that begin with the same key, too
	}
	next := s.edit()
	next.setRole(Role{Name: c.Role, Permissions: all})
	return next, nil
}

type byKey []Permission

func (p byKey) Len() int           { return len(p) }
func (p byKey) Less(i, j int) bool { return bytes.Compare(p[i].Key, p[j].Key) < 0 }
func (p byKey) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }

// RevokePermission takes the permissions with exactly this range from a role. Errors: [ErrRoleNotFound],
// [ErrPermissionNotGranted].
type RevokePermission struct {
	Role     string
	Key, End []byte
}

func (c RevokePermission) apply(s *State) (*State, error) {
	old := s.roles[c.Role]
	if old == nil {
		return nil, ErrRoleNotFound
	}
	remaining := slices.DeleteFunc(slices.Clone(old.Permissions), func(p Permission) bool {
		return bytes.Equal(p.Key, c.Key) && bytes.Equal(p.End, c.End)
	})
	if len(remaining) == len(old.Permissions) {
		return nil, ErrPermissionNotGranted
	}
	next := s.edit()
	next.setRole(Role{Name: c.Role, Permissions: remaining})
	return next, nil
}

// setRole adds or replaces a role, and with it the rights of the users who have it.
func (s *State) setRole(r Role) {
	s.roles[r.Name] = &r
	for name, u := range s.users {
		if slices.Contains(u.Roles, r.Name) {
			s.users[name] = &user{User: u.User, root: u.root}
		}
	}
}
