package auth

// Change is a change of users, roles, or of whether authentication is enabled.
type Change interface {
	apply(s *State) (*State, error)
}

// Apply returns the state after a change, or s itself if the change changes nothing. Errors: those of the change, and
// s is as it was.
func (s *State) Apply(c Change) (*State, error) { return c.apply(s) }

// Enable makes callers need rights. Errors: [ErrRootUserNotExist], [ErrRootRoleNotExist].
type Enable struct{}

func (Enable) apply(s *State) (*State, error) {
	root := s.users[Root]
	switch {
	case s.enabled:
		return s, nil
	case root == nil:
		return nil, ErrRootUserNotExist
	case !root.root:
		return nil, ErrRootRoleNotExist
	}
	next := s.edit()
	next.enabled, next.revision = true, s.revision // as in etcd, it is no new revision
	return next, nil
}

// Disable lets everybody do everything, and ends all tokens.
type Disable struct{}

func (Disable) apply(s *State) (*State, error) {
	if !s.enabled {
		return s, nil
	}
	next := s.edit()
	next.enabled, next.tokensFrom = false, next.revision
	return next, nil
}
