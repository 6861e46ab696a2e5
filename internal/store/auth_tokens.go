package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

const (
	// tokensMax bounds the tokens held in memory; the others are read from the database at each use.
	tokensMax = 1 << 16
	// tokenSweep is how often tokens are deleted from the database that expired as long ago. Until then, the database
	// may still learn that one was used.
	tokenSweep = time.Minute
	// tokenUseTimeout bounds how long it takes to record uses in the database; closing the store waits for it.
	tokenUseTimeout = 2 * time.Second
)

// tokens holds tokens that this store has seen, by their SHA-256. The database has all of them. It learns of their use
// only now and then, but with the time of the last use: the other replicas and a restart honour them as long.
type tokens struct {
	mu    sync.Mutex
	known map[tokenSum]*token
	used  map[tokenSum]*token // since the last write of uses
	busy  bool                // a write of uses is scheduled
	soon  chan struct{}       // capacity 1: uses must be written now
}

type tokenSum = [sha256.Size]byte

type token struct {
	backend.AuthToken
	used    time.Time // by this store
	expires time.Time
	stored  time.Time // when it expires as stored in the database
}

// AddToken makes a token stand for a user whose password was checked at an auth revision. Errors: [auth.ErrNotEnabled],
// [auth.ErrFailed] if the user does not exist or has no password, [auth.ErrOldRevision] if users or roles have changed
// since the check, those of the sequencer.
func (s *Store) AddToken(ctx context.Context, name, user string, checked uint64, ttl time.Duration) error {
	now := s.cfg.Now()
	t := backend.AuthToken{Sum: sha256.Sum256([]byte(name)), User: user, Revision: checked, TTL: ttl}
	if _, err := s.seq.do(ctx, &tokenOperation{t}); err != nil {
		return err
	}
	s.tokens.add(&token{t, now, now.Add(ttl), now.Add(ttl)}, now)
	return nil
}

// TokenUser returns whom a token stands for, as far as this store knows: the calls that it is used for find out whether
// it has ended since. Errors: [auth.ErrInvalidToken], ctx's, those of the backend.
func (s *Store) TokenUser(ctx context.Context, name string) (auth.Identity, error) {
	sum, now := sha256.Sum256([]byte(name)), s.cfg.Now()
	t, ok := s.tokens.use(sum, now)
	if !ok {
		found, left, err := s.backend.AuthToken(ctx, sum)
		switch {
		case err != nil:
			return auth.Identity{}, err
		case left <= 0:
			return auth.Identity{}, auth.ErrInvalidToken
		}
		t = found
		s.tokens.add(&token{found, now, now.Add(left), now.Add(left)}, now)
		s.tokens.use(sum, now)
	}
	id := auth.ByPassword(t.User, t.Revision)
	err := s.Auth().Known(id)
	if errors.Is(err, auth.ErrInvalidToken) { // or this store has not heard of the user yet
		var state *auth.State
		if state, err = s.ConfirmAuth(ctx); err == nil {
			err = state.Known(id)
		}
		if errors.Is(err, auth.ErrInvalidToken) {
			s.tokens.forget(sum)
		}
	}
	if err != nil {
		return auth.Identity{}, err
	}
	s.scheduleTokenUses(sum, now)
	return id, nil
}

// add adds a token to those in memory.
func (k *tokens) add(t *token, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known, k.used, k.soon = map[tokenSum]*token{}, map[tokenSum]*token{}, make(chan struct{}, 1)
	}
	for sum, old := range k.known {
		if len(k.known) < tokensMax {
			break
		}
		if _, pending := k.used[sum]; !pending || !old.expires.After(now) {
			delete(k.known, sum)
			delete(k.used, sum)
		}
	}
	k.known[t.Sum] = t
}

// use returns a token that is in memory and has not expired, and notes its use.
func (k *tokens) use(sum tokenSum, now time.Time) (t backend.AuthToken, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.known[sum]
	switch {
	case found == nil:
		return t, false
	case !found.expires.After(now):
		delete(k.known, sum) // unless another replica has stored its use in the database
		delete(k.used, sum)
		return t, false
	}
	found.used, found.expires = now, now.Add(found.TTL)
	k.used[sum] = found
	return found.AuthToken, true
}

func (k *tokens) forget(sum tokenSum) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, sum)
	delete(k.used, sum)
}

// drain returns the uses that are not in the database yet, and clears them.
func (k *tokens) drain(now time.Time) (uses []backend.AuthTokenUse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for sum, t := range k.used {
		uses = append(uses, backend.AuthTokenUse{Sum: sum, Idle: now.Sub(t.used)})
		t.stored = t.used.Add(t.TTL)
	}
	clear(k.used)
	k.busy = false
	return uses
}

// scheduleTokenUses writes to the database that a token was used: in a while, together with others, or at once if it
// would soon let the token expire.
func (s *Store) scheduleTokenUses(sum tokenSum, now time.Time) {
	k := &s.tokens
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.used[sum]
	if t == nil {
		return
	}
	if t.stored.Sub(now) < t.TTL/2 {
		select {
		case k.soon <- struct{}{}:
		default:
		}
	}
	if !k.busy {
		k.busy = s.background.start(func() { s.flushTokenUses(t.TTL / 4) })
	}
}

func (s *Store) flushTokenUses(after time.Duration) {
	k := &s.tokens
	select {
	case <-k.soon:
	case <-time.After(after):
	case <-s.ctx.Done(): // a restart must not end them early
	}
	uses := k.drain(s.cfg.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), tokenUseTimeout)
	defer cancel()
	if err := s.backend.UseAuthTokens(ctx, uses); err != nil {
		s.cfg.Logger.Warn("the database did not hear that tokens are in use: elsewhere they may end early",
			"tokens", len(uses), "error", err)
	}
}

// dropTokens deletes expired tokens from the database now and then.
func (s *Store) dropTokens() {
	tick := time.NewTicker(tokenSweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if s.Auth().Revision() == 1 || !s.peers.leads() { // at 1 there are none
			continue
		}
		if err := s.backend.DropAuthTokens(s.ctx, tokenSweep); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Warn("expired tokens are not deleted yet", "error", err)
		}
	}
}

// tokenOperation stores a token.
type tokenOperation struct{ token backend.AuthToken }

func (o *tokenOperation) size() int64          { return 256 }
func (o *tokenOperation) needs(*backend.Needs) {}

func (o *tokenOperation) evaluate(e *evaluator) error {
	u, ok := e.auth.User(o.token.User)
	switch {
	case !e.auth.Enabled():
		return auth.ErrNotEnabled
	case !ok, u.NoPassword:
		return auth.ErrFailed
	case o.token.Revision != e.auth.Revision():
		return auth.ErrOldRevision
	}
	e.effects.Tokens = append(e.effects.Tokens, o.token)
	return nil
}
