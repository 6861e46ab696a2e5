package authn

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

// ErrThrottled is returned for a login while too many attempts of its user or address wait already.
var ErrThrottled = errors.New("authn: too many failed logins: wait before the next one")

// The limits of failed logins. Each allows a number at once and after that some per second.
var (
	pairLimit    = limit{burst: 20, rate: 2}   // of a user from an address
	addressLimit = limit{burst: 60, rate: 6}   // from an address
	userLimit    = limit{burst: 200, rate: 20} // of a user, from addresses where the user has not logged in before
)

const (
	// longestWait is how long a login may wait for its turn. One that would wait longer is refused.
	longestWait = 5 * time.Second
	// mostCounted is the number of users, addresses, and pairs of both that are counted at a time.
	mostCounted = 4096
)

// Throttle limits failed logins per user and per address, so that passwords cannot be guessed quickly. A login beyond
// the limits waits for its turn. So that nobody can lock out a user from elsewhere, the limit of a user does not apply
// to addresses from which that user has logged in.
type Throttle struct {
	mu        sync.Mutex
	pairs     counts[pair]
	addresses counts[string]
	users     counts[string]
	trusted   map[pair]struct{}
}

type pair struct{ user, address string }

// NewThrottle returns a Throttle that has seen no logins.
func NewThrottle() *Throttle {
	return &Throttle{
		pairs: counts[pair]{limit: pairLimit}, addresses: counts[string]{limit: addressLimit},
		users: counts[string]{limit: userLimit}, trusted: map[pair]struct{}{},
	}
}

// Begin waits until a login from an address with a port may be tried. The caller must call end with the result.
// Errors: [ErrThrottled], the end of ctx.
func (t *Throttle) Begin(ctx context.Context, user string, from string) (end func(succeeded bool), err error) {
	p := pair{user, network(from)}
	t.mu.Lock()
	now := time.Now()
	_, trusted := t.trusted[p]
	wait := max(t.pairs.add(p, now), t.addresses.add(p.address, now))
	if !trusted {
		wait = max(wait, t.users.add(user, now))
	}
	t.mu.Unlock()
	if wait > longestWait {
		t.undo(p, trusted)
		return nil, ErrThrottled
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done(): // it counts, or an attacker would not need to wait
			return nil, ctx.Err()
		}
	}
	return func(succeeded bool) {
		if succeeded {
			t.undo(p, trusted)
			t.trust(p)
		}
	}, nil
}

// undo takes back what Begin counted.
func (t *Throttle) undo(p pair, trusted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pairs.remove(p)
	t.addresses.remove(p.address)
	if !trusted {
		t.users.remove(p.user)
	}
}

func (t *Throttle) trust(p pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.trusted) >= mostCounted {
		for old := range t.trusted {
			delete(t.trusted, old)
			break
		}
	}
	t.trusted[p] = struct{}{}
}

// network returns what counts as one address: an IPv4 address, or an IPv6 network as a provider gives it to a customer.
// All clients of unix sockets are one.
func network(hostPort string) string {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ip.String()
	}
	return prefix.String()
}

// limit allows burst events at once, and then rate per second.
type limit struct{ burst, rate float64 }

// counts are leaky buckets by key.
type counts[K comparable] struct {
	limit limit
	by    map[K]*level
}

type level struct {
	full float64
	at   time.Time
}

// drain lets out what has leaked since the last use.
func (l *level) drain(now time.Time, rate float64) {
	l.full = max(0, l.full-rate*now.Sub(l.at).Seconds())
	l.at = now
}

// add counts an event and returns how long it must wait.
func (c *counts[K]) add(key K, now time.Time) time.Duration {
	if c.by == nil {
		c.by = map[K]*level{}
	}
	l := c.by[key]
	if l == nil {
		if len(c.by) >= mostCounted {
			c.forget(now)
		}
		l = &level{at: now}
		c.by[key] = l
	}
	l.drain(now, c.limit.rate)
	l.full++
	over := l.full - c.limit.burst
	return max(0, time.Duration(over/c.limit.rate*float64(time.Second)))
}

func (c *counts[K]) remove(key K) {
	if l := c.by[key]; l != nil {
		l.full = max(0, l.full-1)
	}
}

// forget removes the counts at or below the average, so that the most frequent failures stay.
func (c *counts[K]) forget(now time.Time) {
	sum := 0.0
	for _, l := range c.by {
		l.drain(now, c.limit.rate)
		sum += l.full
	}
	average := sum / float64(len(c.by))
	for key, l := range c.by {
		if l.full <= average {
			delete(c.by, key)
		}
	}
}
