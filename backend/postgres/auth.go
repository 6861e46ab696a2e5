package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// readAuth reads everything with one statement, for one snapshot. The first column says what a row is.
	readAuth = "SELECT 0::bigint AS what, ''::bytea AS name, ''::bytea AS other, enabled::integer::bigint AS a, " +
		"revision AS b, tokens_from AS c, ''::bytea AS range_end FROM auth WHERE id = 1 " +
		"UNION ALL SELECT 1, name, password, no_password::integer, tokens_from, 0, ''::bytea FROM auth_users " +
		"UNION ALL SELECT 2, name, ''::bytea, 0, 0, 0, ''::bytea FROM auth_roles " +
		"UNION ALL SELECT 3, user_name, role_name, 0, 0, 0, ''::bytea FROM auth_user_roles " +
		"UNION ALL SELECT 4, role_name, key, place, kind, 0, range_end FROM auth_permissions " +
		"ORDER BY what, name, a, other"
	dropUsers     = "DELETE FROM auth_users WHERE name = ANY ($1::bytea[])"
	dropUserRoles = "DELETE FROM auth_user_roles WHERE user_name = ANY ($1::bytea[])"
	addUsers      = "INSERT INTO auth_users (name, password, no_password, tokens_from) " +
		"SELECT u.name, u.password, u.no_password <> 0, u.tokens_from " +
		"FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) " +
		"AS u(name, password, no_password, tokens_from)"
	addUserRoles = "INSERT INTO auth_user_roles (user_name, role_name) " +
		"SELECT r.user_name, r.role_name FROM unnest($1::bytea[], $2::bytea[]) AS r(user_name, role_name)"
	dropRoles       = "DELETE FROM auth_roles WHERE name = ANY ($1::bytea[])"
	dropPermissions = "DELETE FROM auth_permissions WHERE role_name = ANY ($1::bytea[])"
	addRoles        = "INSERT INTO auth_roles (name) SELECT r.name FROM unnest($1::bytea[]) AS r(name)"
	addPermissions  = "INSERT INTO auth_permissions (role_name, place, kind, key, range_end) " +
		"SELECT p.role_name, p.place, p.kind, p.key, p.range_end " +
		"FROM unnest($1::bytea[], $2::integer[], $3::integer[], $4::bytea[], $5::bytea[]) " +
		"AS p(role_name, place, kind, key, range_end)"

	addTokens = "INSERT INTO auth_tokens (sum, user_name, revision, ttl, expires_at) " +
		"SELECT t.sum, t.user_name, t.revision, t.ttl, clock_timestamp() + t.ttl * interval '1 millisecond' " +
		"FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) AS t(sum, user_name, revision, ttl)"
	readToken = "SELECT user_name, revision, ttl, " +
		"(extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint FROM auth_tokens WHERE sum = $1::bytea"
	// useTokens locks the tokens in the order of their sums, so that no two replicas deadlock.
	useTokens = "UPDATE auth_tokens AS t SET expires_at = GREATEST(t.expires_at, " +
		"clock_timestamp() + (t.ttl - u.idle) * interval '1 millisecond') " +
		"FROM (SELECT l.sum, n.idle FROM auth_tokens AS l JOIN unnest($1::bytea[], $2::bigint[]) AS n(sum, idle) " +
		"ON n.sum = l.sum ORDER BY l.sum FOR UPDATE OF l) AS u " +
		"WHERE t.sum = u.sum"
	dropTokens = "DELETE FROM auth_tokens WHERE sum IN (SELECT sum FROM auth_tokens " +
		"WHERE expires_at <= clock_timestamp() - $1::bigint * interval '1 millisecond' " +
		"ORDER BY sum FOR UPDATE SKIP LOCKED)"
)

var setAuth = exactlyOne("UPDATE auth SET enabled = $1::bigint <> 0, revision = $2::bigint, " +
	"tokens_from = $3::bigint WHERE id = 1")

// Auth implements [backend.AuthStore].
func (b *Backend) Auth(ctx context.Context) (a backend.Auth, err error) {
	err = b.laneFor(ctx).query(ctx, "read users and roles", func() { a = backend.Auth{} }, func(s *scanner) error {
		authRow(&a, s)
		return nil
	}, readAuth)
	if err == nil && a.Revision == 0 {
		err = fmt.Errorf("read users and roles: %w", backend.ErrNoAuth)
	}
	return a, err
}

// authRow reads a row of readAuth. Users and roles come before what belongs to them, in the order of their names.
func authRow(a *backend.Auth, s *scanner) {
	what, name := s.integer(), string(s.bytes())
	null := s.null()
	other, x, y, z, end := s.bytes(), s.integer(), s.integer(), s.integer(), s.bytes()
	switch what {
	case 0:
		a.Enabled, a.Revision, a.TokensFrom = x != 0, uint64(y), uint64(z)
	case 1:
		u := backend.AuthUser{Name: name, NoPassword: x != 0, TokensFrom: uint64(y)}
		if !null {
			u.Hash = other
		}
		a.Users = append(a.Users, u)
	case 2:
		a.Roles = append(a.Roles, backend.AuthRole{Name: name})
	case 3:
		at, found := slices.BinarySearchFunc(a.Users, name, func(u backend.AuthUser, name string) int {
			return cmp.Compare(u.Name, name)
		})
		if found {
			a.Users[at].Roles = append(a.Users[at].Roles, string(other))
		}
	case 4:
		at, found := slices.BinarySearchFunc(a.Roles, name, func(r backend.AuthRole, name string) int {
			return cmp.Compare(r.Name, name)
		})
		if found {
			p := backend.AuthPermission{Kind: backend.AuthKind(y), Key: other, End: end}
			a.Roles[at].Permissions = append(a.Roles[at].Permissions, p)
		}
	}
}

func queueAuth(batch *pgx.Batch, a *backend.AuthChange) {
	batch.Queue(setAuth, int64(index(a.Enabled)), int64(a.Revision), int64(a.TokensFrom))
	queueUsers(batch, a)
	queueRoles(batch, a)
}

func queueUsers(batch *pgx.Batch, a *backend.AuthChange) {
	gone := encoded(a.DroppedUsers)
	var names, hashes, owners, roles [][]byte
	var without, tokens []int64
	for _, u := range a.Users {
		name := []byte(u.Name)
		names, hashes = append(names, name), append(hashes, u.Hash)
		without, tokens = append(without, int64(index(u.NoPassword))), append(tokens, int64(u.TokensFrom))
		for _, role := range u.Roles {
			owners, roles = append(owners, name), append(roles, []byte(role))
		}
	}
	if gone = append(gone, names...); len(gone) == 0 {
		return
	}
	batch.Queue(dropUsers, gone)
	batch.Queue(dropUserRoles, gone)
	if len(names) > 0 {
		batch.Queue(addUsers, names, hashes, without, tokens)
	}
	if len(roles) > 0 {
		batch.Queue(addUserRoles, owners, roles)
	}
}

func queueRoles(batch *pgx.Batch, a *backend.AuthChange) {
	gone := encoded(a.DroppedRoles)
	var names, owners, keys, ends [][]byte
	var places, kinds []int32
	for _, r := range a.Roles {
		name := []byte(r.Name)
		names = append(names, name)
		for i, p := range r.Permissions {
			owners, places, kinds = append(owners, name), append(places, int32(i)), append(kinds, int32(p.Kind))
			keys, ends = append(keys, notNil(p.Key)), append(ends, notNil(p.End))
		}
	}
	if gone = append(gone, names...); len(gone) == 0 {
		return
	}
	batch.Queue(dropRoles, gone)
	batch.Queue(dropPermissions, gone)
	if len(names) > 0 {
		batch.Queue(addRoles, names)
	}
	if len(keys) > 0 {
		batch.Queue(addPermissions, owners, places, kinds, keys, ends)
	}
}

func encoded(names []string) (out [][]byte) {
	for _, n := range names {
		out = append(out, []byte(n))
	}
	return out
}

func queueTokens(batch *pgx.Batch, tokens []backend.AuthToken) {
	if len(tokens) == 0 {
		return
	}
	var sums, users [][]byte
	var revisions, ttls []int64
	for _, t := range tokens {
		sums, users = append(sums, t.Sum[:]), append(users, []byte(t.User))
		revisions, ttls = append(revisions, int64(t.Revision)), append(ttls, t.TTL.Milliseconds())
	}
	batch.Queue(addTokens, sums, users, revisions, ttls)
}

// AuthToken implements [backend.AuthStore].
func (b *Backend) AuthToken(
	ctx context.Context, sum [32]byte,
) (t backend.AuthToken, left time.Duration, err error) {
	err = b.reads.query(ctx, "read a token", func() { t, left = backend.AuthToken{}, 0 }, func(s *scanner) error {
		t = backend.AuthToken{Sum: sum, User: string(s.bytes()), Revision: uint64(s.integer())}
		t.TTL, left = time.Duration(s.integer())*time.Millisecond, microseconds(s.integer())
		return nil
	}, readToken, sum[:])
	return t, left, err
}

// UseAuthTokens implements [backend.AuthStore].
func (b *Backend) UseAuthTokens(ctx context.Context, uses []backend.AuthTokenUse) error {
	sums, idle := make([][]byte, len(uses)), make([]int64, len(uses))
	for i := range uses {
		sums[i], idle[i] = uses[i].Sum[:], uses[i].Idle.Milliseconds()
	}
	return b.reads.transaction(ctx, "renew tokens", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, useTokens, sums, idle)
		return err
	})
}

// DropAuthTokens implements [backend.AuthStore].
func (b *Backend) DropAuthTokens(ctx context.Context, ago time.Duration) error {
	return b.reads.transaction(ctx, "drop expired tokens", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, dropTokens, ago.Milliseconds())
		return err
	})
}
