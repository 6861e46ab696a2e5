package authn

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ErrThrottled is returned for a login that has waited in vain, because too many of its user or address have failed.
var ErrThrottled = errors.New("authn: too many failed logins: wait before the next one")

// The limits of failed logins. Each allows a number at once and after that some per second.
var (
	pairLimit    = limit{burst: 20, rate: 2}   // of a user from an address
	addressLimit = limit{burst: 60, rate: 6}   // from an address
	userLimit    = limit{burst: 200, rate: 20} // of a user, from addresses where the user has not logged in before
)

const (
	// longestWait is how long failures of others may delay a login. One that would wait longer is refused.
	longestWait = 5 * time.Second
	// mostWaiting is the number of logins that wait at a time. Further ones that would have to wait are refused.
	mostWaiting = 1024
	// mostCounted is the number of users, addresses, and pairs of both that are counted at a time.
	mostCounted = 4096
)

// Throttle limits failed logins per user and per address, so that passwords cannot be guessed quickly. A login under
// way may fail, so it counts until it succeeds. A login beyond the limits waits until others have succeeded, or until
// failures are long enough ago. So that nobody can lock out a user from elsewhere, the limit of a user does not apply
// to addresses from which that user has logged in.
type Throttle struct {
	mu        sync.Mutex
	pairs     counts[pair]
	addresses counts[string]
	users     counts[string]
	trusted   map[pair]struct{}
	waiting   []*login // in the order of arrival
	next      *time.Timer
}

type pair struct{ user, address string }

// login is an attempt that waits, or is under way.
type login struct {
	pair
	trusted  bool
	admitted chan struct{} // closed when it may be tried
}

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
	l := &login{pair: pair{user, network(from)}, admitted: make(chan struct{})}
	if err := t.enqueue(l); err != nil {
		return nil, err
	}
	patience := time.NewTimer(longestWait)
	defer patience.Stop()
	for {
		select {
		case <-l.admitted:
			return func(succeeded bool) { t.end(l, succeeded) }, nil
		case <-patience.C:
			if !t.hopeless(l) {
				patience.Reset(longestWait)
				continue
			}
			err = ErrThrottled
		case <-ctx.Done():
			err = ctx.Err()
		}
		if t.dequeue(l) { // or it was admitted in between
			return nil, err
		}
	}
}

// enqueue admits l, or lets it wait. Errors: [ErrThrottled].
func (t *Throttle) enqueue(l *login) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, l.trusted = t.trusted[l.pair]
	t.waiting = append(t.waiting, l)
	t.admit()
	if n := len(t.waiting); n > mostWaiting && t.waiting[n-1] == l {
		t.waiting = t.waiting[:n-1]
		return ErrThrottled
	}
	return nil
}

// dequeue removes l, and reports whether it was still waiting.
func (t *Throttle) dequeue(l *login) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(w *login) bool { return w == l })
	return len(t.waiting) < n
}

// admit admits the logins that no limit delays, and looks again when the next failure is long enough ago.
func (t *Throttle) admit() {
	now, next := time.Now(), time.Duration(math.MaxInt64)
	t.waiting = slices.DeleteFunc(t.waiting, func(l *login) bool {
		delay := time.Duration(0)
		t.each(l, func(c counter) { delay = max(delay, c.delay(now)) })
		if delay > 0 {
			next = min(next, delay)
			return false
		}
		t.each(l, counter.begin)
		close(l.admitted)
		return true
	})
	switch {
	case next == math.MaxInt64:
	case t.next == nil:
		t.next = time.AfterFunc(next, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.admit()
		})
	default:
		t.next.Reset(next)
	}
}

// hopeless reports whether failures alone delay l.
func (t *Throttle) hopeless(l *login) (hopeless bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.each(l, func(c counter) { hopeless = hopeless || c.exhausted(time.Now()) })
	return hopeless
}

func (t *Throttle) end(l *login, succeeded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.each(l, func(c counter) { c.end(time.Now(), succeeded) })
	if succeeded {
		t.trust(l.pair)
	}
	t.admit()
}

// each calls f for the counters of l's limits.
func (t *Throttle) each(l *login, f func(counter)) {
	f(t.pairs.of(l.pair))
	f(t.addresses.of(l.address))
	if !l.trusted {
		f(t.users.of(l.user))
	}
}

func (t *Throttle) trust(p pair) {
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
