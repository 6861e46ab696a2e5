package store

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// How the rights are kept: each batch is evaluated on the users and roles as the operations before it left them
// (authOperation). A store publishes users and roles before the rows of the same commit and of later ones, so what is
// checked after a read is at least as new as the rows that the read found. A watch ends before such rows reach it.
// Where processes share the database, a linearizable question for its clock also tells that users or roles have
// changed; if authentication is enabled, all reads ask it. A replica that has not heard yet that authentication was
// enabled can serve only what was committed before.

// Auth returns the users and roles that this store knows, without asking the database.
func (s *Store) Auth() *auth.State { return s.auth.Load() }

// ConfirmAuth returns the users and roles as every replica left them that has acknowledged a change before the call.
// Errors: ctx's, those of the backend.
func (s *Store) ConfirmAuth(ctx context.Context) (*auth.State, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	return s.Auth(), nil
}

// CheckAdmin returns nil if the caller may do everything. Errors: those of [auth.State.IsAdmin], ctx's, those of the
// backend.
func (s *Store) CheckAdmin(ctx context.Context) error {
	as := auth.From(ctx)
	if as == auth.Server {
		return nil
	}
	state, err := s.ConfirmAuth(ctx)
	if err != nil {
		return err
	}
	return state.IsAdmin(as)
}

// CheckUser returns nil if the caller has valid credentials. Errors: those of [auth.State.Known], ctx's, those of the
// backend.
func (s *Store) CheckUser(ctx context.Context) error {
	as := auth.From(ctx)
	if as == auth.Server || !s.Auth().Enabled() {
		return nil
	}
	state, err := s.ConfirmAuth(ctx)
	if err != nil {
		return err
	}
	return state.Known(as)
}

// admit does what a read has to wait for: it confirms, unless the read is serializable and needs no rights. It returns
// the users and roles to check before the read.
func (s *Store) admit(ctx context.Context, serializable bool) (*auth.State, error) {
	if state := s.Auth(); serializable && (!state.Enabled() || auth.From(ctx) == auth.Server) {
		return state, nil
	}
	return s.ConfirmAuth(ctx)
}

// mayRead reports whether the caller may read a range.
func mayRead(ctx context.Context, state *auth.State, key, end []byte) error {
	if !state.Enabled() {
		return nil
	}
	return state.CanRead(auth.From(ctx), key, end)
}

// loadAuth reads users and roles, and publishes them.
func (s *Store) loadAuth(ctx context.Context, b backend.AuthStore) error {
	a, err := b.Auth(ctx)
	if err != nil {
		return fmt.Errorf("read users and roles: %w", err)
	}
	s.setAuth(auth.New(a))
	return nil
}

// setAuth publishes users and roles, and ends the watches that may not go on. Calls come in the order of the changes,
// each before the rows that are committed after it.
func (s *Store) setAuth(state *auth.State) {
	if s.auth.Swap(state) != state {
		s.hub.Authorize()
	}
}

// ChangeAuth changes users or roles, if the caller may do everything, and returns them as they are after it. Errors:
// those of [auth.State.IsAdmin] and of the change, those of the sequencer.
func (s *Store) ChangeAuth(ctx context.Context, change auth.Change) (*auth.State, error) {
	op := &authOperation{change: change}
	_, err := s.seq.do(ctx, op)
	return op.state, err
}

// authOperation changes users or roles.
type authOperation struct {
	change auth.Change
	state  *auth.State
}

func (o *authOperation) size() int64          { return 1 << 10 }
func (o *authOperation) needs(*backend.Needs) {}

func (o *authOperation) evaluate(e *evaluator) error {
	if err := e.auth.IsAdmin(e.caller); err != nil {
		return err
	}
	next, err := e.auth.Apply(o.change)
	if err != nil {
		return err
	}
	o.state, e.auth = next, next
	return nil
}
