// Package journal finds out whether servers keep what they acknowledge, across kills, lost disks and failovers. Clients
// write with [Load] and record each request and its answer in a [Journal]. [Verify] reads a server's whole history
// afterwards and compares:
//
//   - every acknowledged write exists, at the revision in its answer;
//   - a write without an answer exists once or not at all, and a transaction completely or not at all; a refused write
//     does not exist;
//   - every revision has events, and every event belongs to a write;
//   - watches that resume after the last revision they saw neither miss nor repeat an event;
//   - ranges, at the newest and at older revisions, and leases agree with that history.
//
// Nobody else may write to the servers. For tests only.
package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is what a client knows about its write.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota // no answer, or one that does not settle it
	Acked                  // done, at a known revision
	Refused                // not done
)

// Write is one request that uses a revision if it succeeds.
type Write struct {
	ID            string   // of a put: the value, unique among all writes
	Puts, Deletes []string // keys, in order

	outcome Outcome
	// rev is the revision of an acknowledged write. A lease's revocation has none in its answer: rev is then a lower
	// bound.
	rev   int64
	loose bool // rev is only a bound
	seen  bool // in the server's history
}

func (w *Write) String() string {
	return fmt.Sprintf("{%.20s puts %q deletes %q outcome %d rev %d}", w.ID, w.Puts, w.Deletes, w.outcome, w.rev)
}

// lease is a lease as its client knows it.
type lease struct {
	granted, revoked Outcome
	wantRevoked      bool // a revocation was sent
}

// Journal records the requests and answers of all clients. [New] makes one.
type Journal struct {
	// Pad makes the values longer, by a number of bytes below Pad that differs from write to write.
	Pad int

	mu     sync.Mutex
	next   int
	byID   map[string]*Write
	byRev  map[int64]*Write // acknowledged ones with an exact revision
	acked  int              // acknowledged writes and grants so far
	open   []*Write         // deletions that must be found by their keys
	leases map[int64]*lease
	alive  []int64 // leases with their key, available to be revoked
}

// New returns an empty journal.
func New() *Journal {
	return &Journal{byID: map[string]*Write{}, byRev: map[int64]*Write{}, leases: map[int64]*lease{}}
}

// Begin records a write that is about to be sent.
func (j *Journal) Begin(puts, deletes []string) *Write {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	w := &Write{ID: fmt.Sprintf("w%d", j.next), Puts: puts, Deletes: deletes}
	if j.Pad > 0 {
		const prime = 7919
		w.ID += strings.Repeat(".", j.next*prime%j.Pad)
	}
	j.byID[w.ID] = w
	if len(puts) == 0 {
		j.open = append(j.open, w)
	}
	return w
}

// End records the outcome of a write, and returns an error if its revision belongs to another.
func (j *Journal) End(w *Write, o Outcome, rev int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	w.outcome, w.rev = o, rev
	if o == Acked {
		j.acked++
	}
	if o != Acked || w.loose {
		return nil
	}
	if other := j.byRev[rev]; other != nil {
		return fmt.Errorf("revision %d acknowledged twice: %s and %s", rev, other, w)
	}
	j.byRev[rev] = w
	return nil
}

// Acknowledged returns how many writes and grants of leases have been acknowledged.
func (j *Journal) Acknowledged() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.acked
}

// Newest returns the write with the newest revision since the last Verify.
func (j *Journal) Newest() *Write {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byRev[slices.Max(slices.Collect(maps.Keys(j.byRev)))]
}

// AwaitMore returns when n more writes or grants have been acknowledged.
func (j *Journal) AwaitMore(ctx context.Context, n int) error {
	before := j.Acknowledged()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for j.Acknowledged() < before+n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d writes acknowledged, waiting for %d: %w", j.Acknowledged()-before, n, ctx.Err())
		}
	}
	return nil
}

// nextLease returns the id of a new lease, which is about to be granted.
func (j *Journal) nextLease() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	id := int64(j.next)
	j.leases[id] = &lease{}
	return id
}

// lease updates what is known about a lease.
func (j *Journal) lease(id int64, change func(*lease)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j.leases[id])
}

// granted records that a lease exists.
func (j *Journal) granted(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leases[id].granted = Acked
	j.acked++
}

// leaseStates returns a copy of what is known about all leases.
func (j *Journal) leaseStates() map[int64]lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	states := make(map[int64]lease, len(j.leases))
	for id, l := range j.leases {
		states[id] = *l
	}
	return states
}

// dropLease forgets a lease that is gone for good.
func (j *Journal) dropLease(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.leases, id)
}

// keepLease records that a lease and its key exist and that no client is about to change that.
func (j *Journal) keepLease(id int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.alive = append(j.alive, id)
}

// takeLease returns a lease that was kept, or 0.
func (j *Journal) takeLease() int64 {
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
func (j *Journal) writes() []*Write {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Values(j.byID))
}

// settled forgets the writes: a check has found them, or established their absence.
func (j *Journal) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.byID)
	clear(j.byRev)
	j.open = nil
}
