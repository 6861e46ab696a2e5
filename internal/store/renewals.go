package store

import (
	"context"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// renewalLimit is how many leases one statement renews at most: its time is bounded, and it locks them.
const renewalLimit = 5000

// renewals are those of callers who wait. One statement at a time renews; those that come meanwhile gather in groups,
// which wait in line.
type renewals struct {
	replica *replica

	mu     sync.Mutex
	busy   bool                    // a statement renews
	line   []*renewalGroup         // only the last may be joined by further leases
	places map[int64]*renewalGroup // of the leases in line
}

// renewalGroup is what one statement renews: ttls and err count once done is closed.
type renewalGroup struct {
	callers map[int64]int // by lease; in line, those who have gone are not counted
	done    chan struct{}
	ttls    map[int64]time.Duration
	err     error
}

// renew renews a lease by a statement that begins after the call. Errors: [ErrLeaseNotFound] if it is not there or has
// ended, [ErrClosed], ctx's, those of the backend.
func (r *renewals) renew(ctx context.Context, id int64) (time.Duration, error) {
	g, err := r.join(id)
	if err != nil {
		return 0, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		r.leave(g, id)
		return 0, ctx.Err()
	}
	if g.err != nil {
		return 0, g.err
	}
	ttl, ok := g.ttls[id]
	if !ok {
		return 0, ErrLeaseNotFound
	}
	return ttl, nil
}

// join puts a caller into a group in line.
func (r *renewals) join(id int64) (*renewalGroup, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.busy {
		if r.busy = r.replica.s.background.start(r.run); !r.busy {
			return nil, ErrClosed
		}
	}
	g := r.places[id]
	if g == nil {
		if n := len(r.line); n == 0 || len(r.line[n-1].callers) >= renewalLimit {
			r.line = append(r.line, &renewalGroup{callers: map[int64]int{}, done: make(chan struct{})})
		}
		g = r.line[len(r.line)-1]
		r.places[id] = g
	}
	g.callers[id]++
	return g, nil
}

// leave takes a caller out of a group, unless its turn has come.
func (r *renewals) leave(g *renewalGroup, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places[id] != g {
		return
	}
	if g.callers[id]--; g.callers[id] == 0 {
		delete(g.callers, id)
		delete(r.places, id)
	}
}

// next takes the first group out of the line, nil when nobody waits.
func (r *renewals) next() (g *renewalGroup, ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.line) > 0 && len(ids) == 0 {
		g, r.line = r.line[0], r.line[1:]
		for id := range g.callers {
			ids = append(ids, id)
			delete(r.places, id)
		}
	}
	if r.busy = len(ids) > 0; !r.busy {
		return nil, nil
	}
	return g, ids
}

func (r *renewals) run() {
	for g, ids := r.next(); g != nil; g, ids = r.next() {
		var renewed []backend.Lease
		renewed, g.err = r.replica.b.RenewLeases(r.replica.s.ctx, ids)
		if g.err != nil && r.replica.s.ctx.Err() != nil {
			g.err = ErrClosed
		}
		g.ttls = make(map[int64]time.Duration, len(renewed))
		for _, l := range renewed {
			g.ttls[l.ID] = l.TTL
		}
		close(g.done)
	}
}
