package simdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Client is a [backend.Shared] on a cluster, of one process.
type Client struct {
	cluster *Cluster
	number  int
	closing chan struct{}
	closed  sync.Once
	turn    chan struct{} // holds a token while a transaction holds, or waits for, the clock

	mu      sync.Mutex // may be locked while Cluster.mu is not held
	sent    map[string]uint64
	conn    *run // that the connections lead to
	highest int64
	doubted backend.Server
	commits map[backend.Server]commit
}

// commit is when a commit began, by both clocks.
type commit struct {
	began time.Time
	at    int64
}

// Open returns a new client. It has its own member id.
func (c *Cluster) Open() *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members++
	return &Client{
		cluster: c, number: c.members, closing: make(chan struct{}), turn: make(chan struct{}, 1),
		sent: map[string]uint64{}, commits: map[backend.Server]commit{},
	}
}

// Number identifies the client in a [Request] and for [Cluster.Cut].
func (b *Client) Number() int { return b.number }

// maxRevision is the highest revision.
const maxRevision = 1 << 62

// Settings implements [backend.Backend].
func (b *Client) Settings(context.Context) (backend.Settings, error) {
	if b.isClosed() {
		return backend.Settings{}, backend.ErrClosed
	}
	return backend.Settings{
		ClusterID: b.cluster.id, MemberID: 0x100 + uint64(b.number), MaxRevision: maxRevision,
	}, nil
}

// Close implements [backend.Backend]. It waits for the transaction that holds the clock.
func (b *Client) Close() error {
	b.closed.Do(func() {
		close(b.closing)
		b.turn <- struct{}{}
	})
	return nil
}

func (b *Client) isClosed() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

func (b *Client) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isClosed() {
		return backend.ErrClosed
	}
	return nil
}

// fate asks the network about the next request of a kind.
func (b *Client) fate(kind string) Fate {
	b.mu.Lock()
	n := b.sent[kind]
	b.sent[kind]++
	b.mu.Unlock()
	return b.cluster.network(Request{b.number, kind, n})
}

// connect returns the run of the server that the connections lead to. Without one, it connects to a server that accepts
// writes: if possible not to one that was replaced or does not acknowledge commits.
func (b *Client) connect(ctx context.Context) (*run, error) {
	b.mu.Lock()
	r := b.conn
	b.mu.Unlock()
	c := b.cluster
	c.mu.Lock()
	if r != nil && r.server.run == r && r.server.primary {
		c.mu.Unlock()
		return r, nil
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	r = nil
	refused := false
	err := c.await(ctx, nil, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		refused = true
		for _, s := range c.servers {
			if s.run == nil || !s.primary {
				continue
			}
			refused = false
			if !s.frozen && !c.cut[link{b.number, s.number}] && (r == nil || b.better(s, r.server)) {
				r = s.run
			}
		}
		return refused || r != nil
	})
	if refused || err != nil {
		return nil, fmt.Errorf("%w: no server accepts connections", errBroken)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn, b.highest = r, max(b.highest, r.server.timeline)
	return r, nil
}

// better reports whether s is a better server than o: it acknowledges commits, and replaced the other. Callers hold
// both locks.
func (b *Client) better(s, o *server) bool {
	if x, y := s.run.identity != b.doubted, o.run.identity != b.doubted; x != y {
		return x
	}
	return s.timeline > o.timeline
}

// reset closes the connections.
func (b *Client) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn = nil
}

// doubt records that a server did not acknowledge a commit.
func (b *Client) doubt(r *run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn = nil
	b.doubted = r.identity
}

// acknowledged records a commit that began at began, after the answer o.
func (b *Client) acknowledged(o backend.Origin, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doubted == o.Server {
		b.doubted = backend.Server{}
	}
	if old, ok := b.commits[o.Server]; !ok || began.After(old.began) {
		b.commits[o.Server] = commit{began, o.At}
	}
}

// Unconfirmed implements [backend.Shared].
func (b *Client) Unconfirmed(o backend.Origin) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.commits[o.Server]
	if !ok {
		return math.MaxInt64
	}
	return max(time.Since(at.began), time.Duration(o.At-at.at)*time.Microsecond)
}

// Errors that callers check as they are.
var plain = []error{
	backend.ErrTooManyRows, backend.ErrUnavailable, backend.ErrCompacted, backend.ErrConflict, backend.ErrRejected,
	backend.ErrNoSpace, backend.ErrClosed, backend.ErrTakenOver,
}

// translate wraps the error of anything but a commit.
func (b *Client) translate(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case b.isClosed():
		return backend.ErrClosed
	case slices.ContainsFunc(plain, func(p error) bool { return errors.Is(err, p) }):
		return err
	}
	return fmt.Errorf("%s: %w: %w", doing, backend.ErrUnavailable, err)
}
