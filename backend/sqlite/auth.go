package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Auth implements [backend.AuthStore].
func (b *Backend) Auth(ctx context.Context) (a backend.Auth, err error) {
	_, err = b.read(ctx, "read users and roles", func(c *conn) error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		a, err = c.auth()
		return errors.Join(err, c.exec("ROLLBACK"))
	})
	if err == nil && a.Revision == 0 {
		err = fmt.Errorf("read users and roles: %w", backend.ErrNoAuth)
	}
	return a, err
}

// auth reads users and roles in the open transaction.
func (c *conn) auth() (a backend.Auth, err error) {
	read := func(id statement, f func(row []driver.Value)) {
		if err == nil {
			err = c.each(context.Background(), id, func(row []driver.Value) bool { f(row); return true })
		}
	}
	read(readAuth, func(row []driver.Value) {
		a.Enabled, a.Revision = integer(row[0]) != 0, uint64(integer(row[1]))
		a.TokensFrom = uint64(integer(row[2]))
	})
	roles, permissions := map[string][]string{}, map[string][]backend.AuthPermission{}
	read(readUserRoles, func(row []driver.Value) {
		name := text(row[0])
		roles[name] = append(roles[name], text(row[1]))
	})
	read(readPermissions, func(row []driver.Value) {
		name, p := text(row[0]), backend.AuthPermission{Kind: backend.AuthKind(integer(row[1]))}
		p.Key, _ = row[2].([]byte)
		p.End, _ = row[3].([]byte)
		permissions[name] = append(permissions[name], p)
	})
	read(readUsers, func(row []driver.Value) {
		u := backend.AuthUser{Name: text(row[0]), NoPassword: integer(row[2]) != 0, TokensFrom: uint64(integer(row[3]))}
		u.Hash, _ = row[1].([]byte)
		u.Roles = roles[u.Name]
		a.Users = append(a.Users, u)
	})
	read(readRoles, func(row []driver.Value) {
		name := text(row[0])
		a.Roles = append(a.Roles, backend.AuthRole{Name: name, Permissions: permissions[name]})
	})
	return a, err
}

func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	s, _ := v.(string)
	return s
}

// changeAuth changes users and roles in the open transaction.
func (c *conn) changeAuth(a *backend.AuthChange) (err error) {
	run := func(id statement, args ...driver.Value) {
		if err == nil {
			_, err = c.run(id, args...)
		}
	}
	run(setAuth, a.Enabled, int64(a.Revision), int64(a.TokensFrom))
	for _, name := range slices.Concat(a.DroppedUsers, names(a.Users)) {
		run(dropUser, name)
		run(dropUserRoles, name)
	}
	for _, u := range a.Users {
		var hash driver.Value
		if u.Hash != nil {
			hash = u.Hash
		}
		run(addUser, u.Name, hash, u.NoPassword, int64(u.TokensFrom))
		for _, role := range u.Roles {
			run(addUserRole, u.Name, role)
		}
	}
	for _, name := range a.DroppedRoles {
		run(dropRole, name)
		run(dropPermissions, name)
	}
	for _, r := range a.Roles {
		run(dropRole, r.Name)
		run(dropPermissions, r.Name)
		run(addRole, r.Name)
		for i, p := range r.Permissions {
			run(addPermission, r.Name, int64(i), int64(p.Kind), notNil(p.Key), notNil(p.End))
		}
	}
	return err
}

func names(users []backend.AuthUser) []string {
	all := make([]string, len(users))
	for i, u := range users {
		all[i] = u.Name
	}
	return all
}

// AuthToken implements [backend.AuthStore].
func (b *Backend) AuthToken(
	ctx context.Context, sum [32]byte,
) (t backend.AuthToken, left time.Duration, err error) {
	_, err = b.read(ctx, "read a token", func(c *conn) error {
		return c.each(context.Background(), readToken, func(row []driver.Value) bool {
			t = backend.AuthToken{
				Sum: sum, User: text(row[0]), Revision: uint64(integer(row[1])), TTL: milliseconds(integer(row[2])),
			}
			left = milliseconds(integer(row[3]) - b.now())
			return false
		}, sum[:])
	})
	return t, left, err
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// UseAuthTokens implements [backend.AuthStore].
func (b *Backend) UseAuthTokens(ctx context.Context, uses []backend.AuthTokenUse) error {
	if err := b.acquireWriter(ctx); err != nil {
		return err
	}
	defer b.releaseWriter()
	now := b.now()
	return b.writeLazily("renew tokens", func(c *conn) error {
		for _, u := range uses {
			if _, err := c.run(useToken, u.Sum[:], now-u.Idle.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// DropAuthTokens implements [backend.AuthStore].
func (b *Backend) DropAuthTokens(ctx context.Context, ago time.Duration) error {
	_, err := b.change(ctx, "drop expired tokens", dropTokens, b.now()-ago.Milliseconds())
	return err
}

// addTokens stores tokens in the open transaction.
func (c *conn) addTokens(tokens []backend.AuthToken, now int64) error {
	for _, t := range tokens {
		ttl := t.TTL.Milliseconds()
		if _, err := c.run(addToken, t.Sum[:], t.User, int64(t.Revision), ttl, now+ttl); err != nil {
			return err
		}
	}
	return nil
}
