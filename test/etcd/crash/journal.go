package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// outcome is what a client knows about its write.
type outcome int

const (
	unknown outcome = iota // no answer, or one that does not settle it
	acked                  // done, at a known revision
	refused                // not done
)

// write is one request that uses a revision if it succeeds.
type write struct {
	id      string // of a put: the value, unique among all writes
	puts    []string
	deletes []string // keys, in order
	outcome outcome
	// rev is the revision of an acknowledged write. A lease's revocation has none in its answer: rev is then a lower
	// bound.
	rev   int64
	loose bool // rev is only a bound
	seen  bool // in the server's history
}

func (w *write) String() string {
	return fmt.Sprintf("{%s puts %q deletes %q outcome %d rev %d}", w.id, w.puts, w.deletes, w.outcome, w.rev)
}

// lease is a lease as its client knows it.
type lease struct {
	granted, revoked outcome
	wantRevoked      bool // a revocation was sent
}

// journal records the requests and answers of all clients.
type journal struct {
	mu     sync.Mutex
	next   int
	byID   map[string]*write
	byRev  map[int64]*write // acknowledged ones with an exact revision
	acked  int              // acknowledged writes so far
	open   []*write         // deletions that must be found by their keys
	leases map[int64]*lease
	alive  []int64 // leases with their key, available to be revoked
}

func newJournal() *journal {
	return &journal{byID: map[string]*write{}, byRev: map[int64]*write{}, leases: map[int64]*lease{}}
}

// begin records a write that is about to be sent.
func (j *journal) begin(puts, deletes []string) *write {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	w := &write{id: fmt.Sprintf("w%d", j.next), puts: puts, deletes: deletes}
	j.byID[w.id] = w
	if len(puts) == 0 {
		j.open = append(j.open, w)
	}
	return w
}

// end records the outcome of a write, and returns an error if its revision belongs to another.
func (j *journal) end(w *write, o outcome, rev int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	w.outcome, w.rev = o, rev
	if o == acked {
		j.acked++
	}
	if o != acked || w.loose {
		return nil
	}
	if other := j.byRev[rev]; other != nil {
		return fmt.Errorf("revision %d acknowledged twice: %s and %s", rev, other, w)
	}
	j.byRev[rev] = w
	return nil
}

// awaitMore returns when n more writes have been acknowledged.
func (j *journal) awaitMore(ctx context.Context, n int) error {
	count := func() int {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.acked
	}
	before := count()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for count() < before+n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d writes acknowledged, waiting for %d: %w", count()-before, n, ctx.Err())
		}
	}
	return nil
}

// nextLease returns the id of a new lease, which is about to be granted.
func (j *journal) nextLease() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	id := int64(j.next)
	j.leases[id] = &lease{}
	return id
}

// lease updates what is known about a lease.
func (j *journal) lease(id int64, change func(*lease)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j.leases[id])
}

// leaseStates returns a copy of what is known about all leases.
func (j *journal) leaseStates() map[int64]lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	states := make(map[int64]lease, len(j.leases))
	for id, l := range j.leases {
		states[id] = *l
	}
	return states
}

// dropLease forgets a lease that is gone for good.
func (j *journal) dropLease(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.leases, id)
}

// keepLease records that a lease and its key exist and that no client is about to change that.
func (j *journal) keepLease(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.alive = append(j.alive, id)
}

// takeLease returns a lease that was kept, or 0.
func (j *journal) takeLease() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.alive) == 0 {
		return 0
	}
	id := j.alive[0]
	j.alive = j.alive[1:]
	return id
}

// writes returns all writes since the last settled.
func (j *journal) writes() []*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Values(j.byID))
}

// settled forgets the writes: a check has found them, or established their absence.
func (j *journal) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.byID)
	clear(j.byRev)
	j.open = nil
}
