package authn

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store"
)

// Options configures an Authenticator.
type Options struct {
	// Tokens makes and checks tokens. Default: simple ones with the default TTL.
	Tokens Tokens
	// BcryptCost is the cost of new hashes. 0 means DefaultCost.
	BcryptCost int
	// Logger receives failed logins. Default: no log.
	Logger *slog.Logger
}

// Authenticator identifies the callers of one store.
type Authenticator struct {
	Passwords *Passwords

	store    *store.Store
	tokens   Tokens
	throttle *Throttle
	matched  matched
	log      *slog.Logger
	limit    loglimit.Limit
	counts   counters
}

// New returns the Authenticator of a store.
func New(s *store.Store, o Options) *Authenticator {
	if o.BcryptCost == 0 {
		o.BcryptCost = DefaultCost
	}
	if o.Tokens == nil {
		o.Tokens = simpleTokens{DefaultTokenTTL}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Authenticator{
		Passwords: NewPasswords(o.BcryptCost), store: s, tokens: o.Tokens, throttle: NewThrottle(),
		matched: newMatched(), log: o.Logger, limit: loglimit.Limit{Lines: 10, Period: failurePeriod},
	}
}

// Login checks a password and returns a new token. Errors: [auth.ErrNotEnabled], [auth.ErrFailed],
// [auth.ErrNoPassword], [ErrThrottled], [ErrVerifyOnly], those of the store.
func (a *Authenticator) Login(ctx context.Context, user, password string, from string) (token string, err error) {
	for {
		revision, err := a.check(ctx, user, password, from)
		if err != nil {
			return "", err
		}
		token, err := a.tokens.make(ctx, a.store, user, revision)
		if errors.Is(err, auth.ErrOldRevision) {
			continue // the password may have changed since it was checked
		}
		return token, err
	}
}

// Password identifies a caller who sends a user's name and password with each call. Errors: those of Login.
func (a *Authenticator) Password(ctx context.Context, user, password string, from string) (auth.Identity, error) {
	revision, err := a.check(ctx, user, password, from)
	if err != nil {
		return auth.Identity{}, err
	}
	return auth.ByPassword(user, revision), nil
}

// check checks a password, and returns the auth revision at which it was correct.
func (a *Authenticator) check(ctx context.Context, user, password string, from string) (uint64, error) {
	state, err := a.store.ConfirmAuth(ctx)
	if err != nil {
		return 0, err
	}
	if !state.Enabled() {
		return 0, auth.ErrNotEnabled
	}
	end, err := a.throttle.Begin(ctx, user, from)
	if err != nil {
		if errors.Is(err, ErrThrottled) {
			a.counts.throttled.Add(1)
			a.failed("login refused", user, from, err)
		}
		return 0, err
	}
	// Only an admitted attempt may learn what a.matched knows: it would tell a right guess whatever the limits are.
	if u, ok := state.User(user); ok && a.matched.has(u.Name, u.Hash, password) {
		end(Succeeded)
		return state.Revision(), nil
	}
	err = a.match(ctx, state, user, password)
	switch {
	case err == nil:
		end(Succeeded)
	case errors.Is(err, auth.ErrFailed), errors.Is(err, auth.ErrNoPassword):
		end(Failed)
		a.counts.failed.Add(1)
		a.failed("login failed", user, from, err)
		return 0, err
	case ctx.Err() != nil: // the caller knows that this was not the password that was right before
		end(Failed)
		return 0, err
	default:
		end(Abandoned)
		return 0, err
	}
	a.counts.succeeded.Add(1)
	return state.Revision(), nil
}

// match compares a password with that of a user.
func (a *Authenticator) match(ctx context.Context, state *auth.State, user, password string) error {
	u, ok := state.User(user)
	switch {
	case !ok:
		if err := a.Passwords.MatchUnknown(ctx, usualCost(state), password); err != nil {
			return err
		}
		return auth.ErrFailed
	case u.NoPassword:
		return auth.ErrNoPassword
	}
	same, err := a.Passwords.Match(ctx, u.Hash, password)
	if err != nil {
		return err
	}
	if !same {
		return auth.ErrFailed
	}
	a.matched.add(u.Name, u.Hash, password)
	return nil
}

// usualCost returns the highest cost of any user's hash. All are the same unless the setting has changed.
func usualCost(state *auth.State) (highest int) {
	for _, u := range state.Users() {
		highest = max(highest, cost(u.Hash))
	}
	return highest
}

// Token identifies a caller who sends a token. With auth disabled there is nobody to identify: it returns the zero
// Identity. A token of nobody is [auth.Invalid], which the engine refuses where it matters. Errors: those of the store.
func (a *Authenticator) Token(ctx context.Context, token string) (auth.Identity, error) {
	if !a.store.Auth().Enabled() {
		// It may just have been enabled through another replica, which made the token.
		state, err := a.store.ConfirmAuth(ctx)
		if err != nil || !state.Enabled() {
			return auth.Identity{}, err
		}
	}
	id, err := a.tokens.identify(ctx, a.store, token)
	if errors.Is(err, auth.ErrInvalidToken) {
		return auth.Invalid, nil
	}
	return id, err
}

// failed logs some of the failed logins.
func (a *Authenticator) failed(message, user string, from string, err error) {
	skipped, ok := a.limit.Allow()
	if !ok {
		return
	}
	a.log.Warn(message, "user", ShownUser(user), "client", from, "error", err,
		"not-logged-before", skipped)
}

// shownUser is how much of a user's name is logged.
const shownUser = 64

// ShownUser returns what logs may show of a name that somebody logs in with: it may be anything, even a password typed
// into the wrong field.
func ShownUser(name string) string { return name[:min(len(name), shownUser)] }

// matched remembers by user which password matched which hash, so that callers who send it with each call do not pay
// for bcrypt each time. It keeps no passwords, only keyed sums.
type matched struct {
	key []byte
	mu  *sync.Mutex
	by  map[string]match
}

type match struct {
	hash string
	sum  [sha256.Size]byte
}

// mostMatched is the number of users that are remembered.
const mostMatched = 1024

func newMatched() matched {
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		panic(fmt.Sprintf("authn: no random numbers: %v", err)) // it never fails
	}
	return matched{key: key, mu: &sync.Mutex{}, by: map[string]match{}}
}

func (m *matched) sum(password string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(password))
	h.Sum(sum[:0])
	return sum
}

func (m *matched) has(user string, hash []byte, password string) bool {
	m.mu.Lock()
	known, ok := m.by[user]
	m.mu.Unlock()
	if !ok || known.hash != string(hash) || len(hash) == 0 {
		return false
	}
	sum := m.sum(password)
	return hmac.Equal(known.sum[:], sum[:])
}

func (m *matched) add(user string, hash []byte, password string) {
	known := match{string(hash), m.sum(password)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.by) >= mostMatched {
		clear(m.by)
	}
	m.by[user] = known
}
