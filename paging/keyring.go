package paging

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// keysFresh is how long keys are used before they are read from the database again. After that time, a rotation or
	// a revocation by another process has taken effect.
	keysFresh = time.Minute
	// keysPause is the minimum time between two queries for an unknown key, which limits the cost of invented tokens.
	keysPause = 100 * time.Millisecond
	// keysRetry is how long keys that could not be refreshed are used before the next attempt.
	keysRetry = time.Second
	// firstKeyTries limits how often another process may win the race to make the first key.
	firstKeyTries = 5
)

// TokenKeys stores the keys that seal continue tokens, for all processes that share the database: a [backend.Backend].
type TokenKeys interface {
	TokenKeys(ctx context.Context) ([]backend.TokenKey, error)
	AddTokenKey(ctx context.Context, last int64, key []byte) error
}

// keyring caches the keys and refreshes them from time to time.
//
// Ids are never reused, and the newest key is never dropped. So an unknown id up to the newest known one has been
// dropped, and only a higher one may justify a query to the database.
type keyring struct {
	keys TokenKeys
	set  atomic.Pointer[keySet]
	lock chan struct{} // holds a token while somebody queries the database
	next time.Time     // when the next query for an unknown key is allowed; protected by lock
}

// keySet is the set of keys that the database contained at some point.
type keySet struct {
	byID    map[int64]cipher.AEAD
	newest  int64     // 0 for none
	queried time.Time // just before the query was sent
	until   time.Time // when the next one is due
}

func newKeyring(keys TokenKeys) *keyring {
	return &keyring{keys: keys, lock: make(chan struct{}, 1)}
}

// current returns the keys, at most keysFresh old. While the database cannot be queried, the cached keys stay in use:
// as far as this process can tell, nobody can have changed them either. Errors: those of the backend, ctx's.
func (k *keyring) current(ctx context.Context) (*keySet, error) {
	set := k.set.Load()
	switch {
	case set == nil:
		return k.refresh(ctx, func(now *keySet) bool { return now != nil })
	case time.Now().Before(set.until):
		return set, nil
	}
	fresh, err := k.refresh(ctx, func(now *keySet) bool { return now != set })
	if err == nil {
		return fresh, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	stale := *set
	stale.until = time.Now().Add(keysRetry)
	k.set.CompareAndSwap(set, &stale)
	return set, nil
}

// refresh reads the keys from the database, unless done accepts what somebody else read while this call waited for
// lock.
func (k *keyring) refresh(ctx context.Context, done func(*keySet) bool) (*keySet, error) {
	select {
	case k.lock <- struct{}{}:
		defer func() { <-k.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if set := k.set.Load(); done(set) {
		return set, nil
	}
	return k.read(ctx)
}

// read reads the keys. Callers hold lock.
func (k *keyring) read(ctx context.Context) (*keySet, error) {
	queried := time.Now() // before the query, so that it never claims to have seen a later change
	k.next = queried.Add(keysPause)
	all, err := k.keys.TokenKeys(ctx)
	if err != nil {
		return nil, err
	}
	set := &keySet{byID: make(map[int64]cipher.AEAD, len(all)), queried: queried, until: queried.Add(keysFresh)}
	for _, key := range all {
		c, err := chacha20poly1305.NewX(key.Key)
		if err != nil {
			return nil, fmt.Errorf("token key %d in the database is damaged: %w: make another one with 'sqlstore "+
				"token-keys rotate --revoke'", key.ID, err)
		}
		set.byID[key.ID], set.newest = c, key.ID
	}
	k.set.Store(set)
	return set, nil
}

// sealing returns the keys, at least one: if there is none, it creates the first. Errors: the same as current.
func (k *keyring) sealing(ctx context.Context) (*keySet, error) {
	set, err := k.current(ctx)
	for range firstKeyTries {
		if err != nil || set.newest != 0 {
			return set, err
		}
		if err := k.keys.AddTokenKey(ctx, 0, random(chacha20poly1305.KeySize)); err != nil &&
			!errors.Is(err, backend.ErrConflict) {
			return nil, err
		}
		empty := set
		set, err = k.refresh(ctx, func(now *keySet) bool { return now != empty && now.newest != 0 })
	}
	return set, errors.Join(err, fmt.Errorf("%w: a newly made token key is missing", backend.ErrUnavailable))
}

// opening returns the keys, including the one with the id if it exists. Errors: the same as current.
func (k *keyring) opening(ctx context.Context, id int64) (*keySet, error) {
	received := time.Now()
	set, err := k.current(ctx)
	if err != nil || id <= set.newest {
		return set, err
	}
	select {
	case k.lock <- struct{}{}:
		defer func() { <-k.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now := k.set.Load(); now.queried.After(received) {
		return now, nil // read for another call
	}
	if wait := time.Until(k.next); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return k.read(ctx)
}
