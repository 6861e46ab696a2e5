package simdb

import (
	"context"
	"time"

	"github.com/tidwall/btree"

	"github.com/sqlstore/sqlstore/backend"
)

// auth is the part of a state that holds users, roles and tokens.
type auth struct {
	enabled              bool
	revision, tokensFrom uint64
	users                *btree.Map[string, backend.AuthUser]
	roles                *btree.Map[string, backend.AuthRole]
	tokens               *btree.Map[string, token]
}

type token struct {
	backend.AuthToken
	expires time.Time
}

func newAuth() auth {
	return auth{
		revision: 1, users: &btree.Map[string, backend.AuthUser]{}, roles: &btree.Map[string, backend.AuthRole]{},
		tokens: &btree.Map[string, token]{},
	}
}

func (a auth) copy() auth {
	a.users, a.roles, a.tokens = a.users.Copy(), a.roles.Copy(), a.tokens.Copy()
	return a
}

func (a *auth) change(c *backend.AuthChange) {
	a.enabled, a.revision, a.tokensFrom = c.Enabled, c.Revision, c.TokensFrom
	for _, name := range c.DroppedUsers {
		a.users.Delete(name)
	}
	for _, name := range c.DroppedRoles {
		a.roles.Delete(name)
	}
	for _, u := range c.Users {
		a.users.Set(u.Name, u)
	}
	for _, r := range c.Roles {
		a.roles.Set(r.Name, r)
	}
}

// Auth implements [backend.AuthStore].
func (b *Client) Auth(ctx context.Context) (a backend.Auth, err error) {
	err = b.read(ctx, "auth", func(_ *server, st *state) error {
		a = backend.Auth{
			Enabled: st.auth.enabled, Revision: st.auth.revision, TokensFrom: st.auth.tokensFrom,
			Users: st.auth.users.Values(), Roles: st.auth.roles.Values(),
		}
		return nil
	})
	return a, err
}

// AuthToken implements [backend.AuthStore].
func (b *Client) AuthToken(
	ctx context.Context, sum [32]byte,
) (t backend.AuthToken, left time.Duration, err error) {
	err = b.read(ctx, "auth token", func(s *server, st *state) error {
		found, ok := st.auth.tokens.Get(string(sum[:]))
		if t, left = found.AuthToken, 0; ok {
			left = found.expires.Sub(s.now())
		}
		return nil
	})
	return t, left, err
}

// UseAuthTokens implements [backend.AuthStore].
func (b *Client) UseAuthTokens(ctx context.Context, uses []backend.AuthTokenUse) error {
	_, err := write(ctx, b, "use auth tokens", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, now time.Time) (struct{}, error) {
			for _, u := range uses {
				t, ok := st.auth.tokens.Get(string(u.Sum[:]))
				if expires := now.Add(t.TTL - u.Idle); ok && expires.After(t.expires) {
					st.auth.tokens.Set(string(u.Sum[:]), token{t.AuthToken, expires})
				}
			}
			return struct{}{}, nil
		},
	})
	return err
}

// DropAuthTokens implements [backend.AuthStore].
func (b *Client) DropAuthTokens(ctx context.Context, ago time.Duration) error {
	_, err := write(ctx, b, "drop auth tokens", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, now time.Time) (struct{}, error) {
			for _, sum := range st.auth.tokens.Keys() {
				if t, _ := st.auth.tokens.Get(sum); !t.expires.Add(ago).After(now) {
					st.auth.tokens.Delete(sum)
				}
			}
			return struct{}{}, nil
		},
	})
	return err
}
