// Package bodies limits the memory that HTTP request bodies take while they arrive.
//
// Small bodies are always read, and so are the beginnings of others: each costs little more than its connection. Larger
// ones share a [Budget]. Clients that send much and then nothing would fill it, so a slow body is dropped when others
// wait for capacity. Clients that announce much and send little fill only the part of it that is for the beginnings.
package bodies

import (
	"context"
	"errors"
	"time"
)

const (
	// Small is the size up to which a body needs no capacity in a budget, as most do.
	Small = 64 << 10
	// budgetBytes is the capacity for whole bodies, unless the largest ones need more. The parsed form of bodies comes
	// on top, for as long as it is in use.
	budgetBytes = 64 << 20
	// leastBodies is how many of the largest bodies always fit.
	leastBodies = 4
)

// stages are for the beginnings of bodies, up to most bytes each. A body that proves longer waits for the capacity of
// the next stage, so it never reserves much more than it has sent. Since no body waits for an earlier stage, bodies
// cannot block each other for good.
var stages = []struct{ most, capacity int64 }{{4 * Small, 32 << 20}, {12 * Small, 48 << 20}}

var (
	// ErrFull is returned if there is no capacity for a body and none becomes free.
	ErrFull = errors.New("too many large bodies are being read")
	// ErrSlow is returned for a body that took too long to arrive.
	ErrSlow = errors.New("the body took too long to arrive")
)

// Budget is the memory that large bodies share.
type Budget struct {
	stages  []stage
	timeout time.Duration
}

type stage struct {
	*pool
	most int64 // bytes of a body
}

// Reservation is the capacity of a body that is being read.
type Reservation struct {
	of    *Budget
	bytes int64 // of the whole body
	abort func()
	stage int
	claim *claim // on the stage's pool
}

// NewBudget makes a budget for bodies of up to largest bytes, each of which has timeout to arrive.
func NewBudget(largest int64, timeout time.Duration) *Budget {
	b := &Budget{timeout: timeout}
	for _, s := range stages {
		b.stages = append(b.stages, stage{newPool(s.capacity, timeout), s.most})
	}
	b.stages = append(b.stages, stage{newPool(max(budgetBytes, leastBodies*largest), timeout), largest})
	return b
}

// Reserve waits for capacity for a body of n bytes, of which [Small] have arrived. The caller reads the others as far
// as the reservation covers them. If others wait and the body is slow, abort is called, which must end the read.
// Errors: [ErrFull], also when ctx ends.
func (b *Budget) Reserve(ctx context.Context, n int64, abort func()) (*Reservation, error) {
	r := &Reservation{of: b, bytes: n, abort: abort}
	var err error
	if r.claim, err = b.stages[0].reserve(ctx, r.Covers(), abort); err != nil {
		return nil, err
	}
	r.Received(Small)
	return r, nil
}

// Covers returns how many bytes of the body there is capacity for.
func (r *Reservation) Covers() int64 {
	if r.stage == len(r.of.stages)-1 {
		return r.bytes
	}
	return min(r.bytes, r.of.stages[r.stage].most)
}

// Grow waits for capacity for the next part of the body, after what the reservation covers has arrived. Errors:
// [ErrFull], also when ctx ends, and [ErrSlow] if the body was aborted.
func (r *Reservation) Grow(ctx context.Context) error {
	if r.claim.arrived() {
		return ErrSlow // it must not wait with capacity that others count on
	}
	arrived := r.Covers()
	r.stage++
	next, err := r.of.stages[r.stage].reserve(ctx, r.Covers(), r.abort)
	if err != nil {
		return err
	}
	r.claim.release()
	r.claim = next
	r.Received(int(arrived))
	return nil
}

// Received records that n bytes of the body have arrived.
func (r *Reservation) Received(n int) { r.claim.received(n) }

// Arrived ends the reading, whatever its result. It may be called twice.
func (r *Reservation) Arrived() { r.claim.arrived() }

// Release releases the capacity. It may be called twice.
func (r *Reservation) Release() { r.claim.release() }
