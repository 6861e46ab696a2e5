package auth

import "errors"

// CanRead reports whether id may read the keys [key, end), with etcd's meaning of an empty end and of one of one NUL
// byte. Errors: [ErrUserEmpty], [ErrOldRevision], [ErrInvalidToken], [ErrPermissionDenied].
func (s *State) CanRead(id Identity, key, end []byte) error { return s.can(id, key, end, false) }

// CanWrite is CanRead for writing.
func (s *State) CanWrite(id Identity, key, end []byte) error { return s.can(id, key, end, true) }

func (s *State) can(id Identity, key, end []byte, write bool) error {
	if !s.enabled || id.proof == byServer {
		return nil
	}
	u, err := s.caller(id)
	switch {
	case err != nil:
		return err
	case id.proof == bySignature && id.Revision < s.revision:
		return ErrOldRevision
	case u == nil:
		return ErrPermissionDenied
	case u.root:
		return nil
	}
	r := s.rightsOf(u)
	allowed := r.read
	if write {
		allowed = r.write
	}
	covered := cover(allowed, key, end)
	if reversed(key, end) {
		covered = s.coverReversed(u, key, end, write)
	}
	if !covered {
		return ErrPermissionDenied
	}
	return nil
}

// caller returns the user that id stands for, nil if there is none of that name.
func (s *State) caller(id Identity) (*user, error) {
	switch {
	case id.proof == byInvalidToken:
		return nil, ErrInvalidToken
	case id.Revision == 0, id.proof == byNothing:
		return nil, ErrUserEmpty
	}
	u := s.users[id.User]
	if id.proof == byPassword && (u == nil || id.Revision < max(u.TokensFrom, s.tokensFrom)) {
		return nil, ErrInvalidToken
	}
	return u, nil
}

// Known reports whether id has credentials that are still valid. Errors: [ErrUserEmpty], [ErrInvalidToken].
func (s *State) Known(id Identity) error {
	if !s.enabled || id.proof == byServer {
		return nil
	}
	_, err := s.caller(id)
	return err
}

// IsAdmin reports whether id may do everything. A signed token stays valid for that when users or roles change, as in
// etcd, but not when the password of its user does. Errors: [ErrUserEmpty], [ErrInvalidToken], [ErrOldRevision],
// [ErrUserNotFound], [ErrPermissionDenied].
func (s *State) IsAdmin(id Identity) error {
	if !s.enabled || id.proof == byServer {
		return nil
	}
	u, err := s.caller(id)
	switch {
	case err != nil:
		return err
	case id.User == "":
		return ErrUserEmpty
	case u == nil:
		return ErrUserNotFound
	case id.proof == bySignature && id.Revision < u.TokensFrom:
		return ErrOldRevision
	case !u.root:
		return ErrPermissionDenied
	}
	return nil
}

// Valid reports whether id may see what anybody may: it has no credentials, or some that are still valid. Errors:
// [ErrInvalidToken].
func (s *State) Valid(id Identity) error {
	if id == (Identity{}) {
		return nil
	}
	return s.Known(id)
}

// CanSeeUser reports whether id may see the roles of a user: administrators see all users, others see themselves.
// Errors: those of IsAdmin.
func (s *State) CanSeeUser(id Identity, name string) error {
	return s.canSee(id, id.User == name)
}

// CanSeeRole reports whether id may see the permissions of a role: administrators see all roles, others see their own.
// Errors: those of IsAdmin.
func (s *State) CanSeeRole(id Identity, role string) error {
	return s.canSee(id, s.HasRole(id.User, role))
}

func (s *State) canSee(id Identity, own bool) error {
	err := s.IsAdmin(id)
	if err != nil && own && !errors.Is(err, ErrInvalidToken) {
		return nil
	}
	return err
}

// CanWatch reports whether a watch that id created may go on. A signed token need not be renewed for it. Errors: those
// of CanRead.
func (s *State) CanWatch(id Identity, key, end []byte) error {
	if id.proof == bySignature {
		if u := s.users[id.User]; u != nil && id.Revision < u.TokensFrom {
			return ErrPermissionDenied
		}
		id.proof = byCertificate
	}
	return s.CanRead(id, key, end)
}
