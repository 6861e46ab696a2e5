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
	// mostWaiting is the number of logins that wait at a time, and mostOfAddress of those from one address. Further
	// ones that would have to wait are refused.
	mostWaiting   = 4096
	mostOfAddress = 256
	// mostCounted is the number of users, addresses, and pairs of both that are counted at a time, and of logins under
	// way.
	mostCounted = 4096
	// admitPause is the least time between two looks at all that wait, unless a login has ended.
	admitPause = 20 * time.Millisecond
)

// Outcome is what became of a login.
type Outcome int

const (
	// Abandoned is a login of which no password was compared.
	Abandoned Outcome = iota
	// Failed is a login with a wrong password, or of an unknown user.
	Failed
	// Succeeded is a login with the right password.
	Succeeded
)

// Throttle limits failed logins per user and per address, so that passwords cannot be guessed quickly. A login under
// way may fail, so it counts until it has another outcome. A login beyond the limits waits until others have ended, or
// until failures are long enough ago. So that nobody can lock out a user from elsewhere, the limit of a user does not
// apply to addresses from which that user has logged in, and each address has a limit of logins that wait.
type Throttle struct {
	mu        sync.Mutex
	pairs     counts[pair]
	addresses counts[string]
	users     counts[string]
	trusted   map[pair]struct{}
	underWay  int
	waiting   []*login       // in the order of arrival
	from      map[string]int // those of waiting, by address
	next      *time.Timer
	nextAt    time.Time // when it fires, zero if it does not
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
		pairs: newCounts[pair](pairLimit), addresses: newCounts[string](addressLimit),
		users: newCounts[string](userLimit), trusted: map[pair]struct{}{}, from: map[string]int{},
	}
}

// Begin waits until a login from an address with a port may be tried. The caller must call end with the result.
// Errors: [ErrThrottled], the end of ctx.
func (t *Throttle) Begin(ctx context.Context, user string, from string) (end func(Outcome), err error) {
	l := &login{pair: pair{user, network(from)}, admitted: make(chan struct{})}
	if err := t.enqueue(l); err != nil {
		return nil, err
	}
	patience := time.NewTimer(longestWait)
	defer patience.Stop()
	for {
		select {
		case <-l.admitted:
			return func(o Outcome) { t.end(l, o) }, nil
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

// enqueue admits l at once, or lets it wait. Errors: [ErrThrottled].
func (t *Throttle) enqueue(l *login) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, l.trusted = t.trusted[l.pair]
	delay := t.delay(l, time.Now())
	if delay == 0 {
		t.begin(l)
		return nil
	}
	if len(t.waiting) >= mostWaiting || t.from[l.address] >= mostOfAddress {
		return ErrThrottled
	}
	t.waiting = append(t.waiting, l)
	t.from[l.address]++
	t.lookAfter(delay)
	return nil
}

// dequeue removes l, and reports whether it was still waiting.
func (t *Throttle) dequeue(l *login) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, l)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.left(l)
	}
	return i >= 0
}

// left counts a login that waits no more.
func (t *Throttle) left(l *login) {
	if t.from[l.address]--; t.from[l.address] == 0 {
		delete(t.from, l.address)
	}
}

// admit admits the logins that no limit delays any more, in the order of their arrival.
func (t *Throttle) admit() {
	now, next := time.Now(), time.Duration(math.MaxInt64)
	t.waiting = slices.DeleteFunc(t.waiting, func(l *login) bool {
		if delay := t.delay(l, now); delay > 0 {
			next = min(next, delay)
			return false
		}
		t.begin(l)
		t.left(l)
		return true
	})
	if len(t.waiting) > 0 {
		t.lookAfter(next)
	}
}

// lookAfter calls admit after a delay, if nothing does so earlier.
func (t *Throttle) lookAfter(delay time.Duration) {
	delay = max(delay, admitPause)
	at := time.Now().Add(delay)
	if t.next != nil && !t.nextAt.IsZero() && t.nextAt.Before(at) {
		return
	}
	t.nextAt = at
	if t.next != nil {
		t.next.Reset(delay)
		return
	}
	t.next = time.AfterFunc(delay, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.nextAt = time.Time{}
		t.admit()
	})
}

// delay returns how long l must wait.
func (t *Throttle) delay(l *login, now time.Time) time.Duration {
	if t.underWay >= mostCounted {
		return longestWait
	}
	delay := max(t.pairs.delay(l.pair, now), t.addresses.delay(l.address, now))
	if !l.trusted {
		delay = max(delay, t.users.delay(l.user, now))
	}
	return delay
}

// hopeless reports whether failures are why l waits, rather than logins under way.
func (t *Throttle) hopeless(l *login) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	return t.pairs.exhausted(l.pair, now) || t.addresses.exhausted(l.address, now) ||
		!l.trusted && t.users.exhausted(l.user, now)
}

func (t *Throttle) begin(l *login) {
	t.underWay++
	t.pairs.begin(l.pair)
	t.addresses.begin(l.address)
	if !l.trusted {
		t.users.begin(l.user)
	}
	close(l.admitted)
}

func (t *Throttle) end(l *login, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay--
	now := time.Now()
	t.pairs.end(l.pair, now, o)
	t.addresses.end(l.address, now, o)
	if !l.trusted {
		t.users.end(l.user, now, o)
	}
	if o == Succeeded {
		t.trust(l.pair)
	}
	t.admit()
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
