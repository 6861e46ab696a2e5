package backend

import (
	"context"
	"time"
)

// AuthKind tells what a permission allows. Its values are etcd's.
type AuthKind int32

// The kinds of permissions.
const (
	AuthRead AuthKind = iota
	AuthWrite
	AuthReadWrite
)

// AuthPermission allows something on the keys of a range. An empty End means only Key, an End of one NUL byte means all
// keys from Key on.
type AuthPermission struct {
	Kind     AuthKind
	Key, End []byte
}

// AuthRole is a named list of permissions, whose order is part of it.
type AuthRole struct {
	Name        string
	Permissions []AuthPermission
}

// AuthUser is a user. Hash is the bcrypt hash of its password.
type AuthUser struct {
	Name       string
	Hash       []byte
	NoPassword bool
	Roles      []string // sorted
	// TokensFrom is the auth revision at which the user was added or its password last changed. Tokens made at an
	// earlier one have ended.
	TokensFrom uint64
}

// Auth is everything that decides who may do what.
type Auth struct {
	Enabled bool
	// Revision counts the changes; a new store is at 1.
	Revision uint64
	// TokensFrom is the auth revision at which authentication was last disabled. Tokens made at an earlier one have
	// ended.
	TokensFrom uint64
	Users      []AuthUser // by name
	Roles      []AuthRole // by name
}

// AuthChange turns one [Auth] into the next: Users and Roles are added or replaced.
type AuthChange struct {
	Enabled                    bool
	Revision, TokensFrom       uint64
	Users                      []AuthUser
	Roles                      []AuthRole
	DroppedUsers, DroppedRoles []string
}

// AuthToken stands for a user who has given its password. The database holds the token's SHA-256 only.
type AuthToken struct {
	Sum  [32]byte
	User string
	// Revision is the auth revision at which the password was checked.
	Revision uint64
	// TTL is how long the token stays valid without use, in whole milliseconds.
	TTL time.Duration
}

// AuthTokenUse says how long a token has not been used.
type AuthTokenUse struct {
	Sum  [32]byte
	Idle time.Duration
}

// AuthStore is the part of a [Backend] that stores users, roles and tokens. They change with [Tx.Commit].
type AuthStore interface {
	// Auth returns the committed users and roles, all from one snapshot. Errors: [ErrNoAuth].
	Auth(ctx context.Context) (Auth, error)
	// AuthToken returns the token with this SHA-256 and how long it has left unless it is used: 0 or less if it has
	// expired, or if there is none.
	AuthToken(ctx context.Context, sum [32]byte) (t AuthToken, left time.Duration, err error)
	// UseAuthTokens makes tokens last for their TTL from their last use on.
	UseAuthTokens(ctx context.Context, uses []AuthTokenUse) error
	// DropAuthTokens deletes the tokens that expired at least so long ago.
	DropAuthTokens(ctx context.Context, ago time.Duration) error
}
