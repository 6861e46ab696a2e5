package store

import (
	"context"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// lateAnswer holds back the first result with expired leases until it is too old to act on, and reports the next query.
type lateAnswer struct {
	backend.Shared
	late   bool
	again  chan struct{} // receives when the next query starts
	resume chan struct{} // the next query waits until this is closed
}

func (l *lateAnswer) ExpiredLeases(ctx context.Context, limit int) ([]int64, error) {
	if l.late {
		select {
		case l.again <- struct{}{}:
		case <-l.resume:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case <-l.resume:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ids, err := l.Shared.ExpiredLeases(ctx, limit)
	if len(ids) > 0 && !l.late {
		l.late = true
		select {
		case <-time.After(expiryFresh + 100*time.Millisecond):
		case <-ctx.Done():
		}
	}
	return ids, err
}

// A result that says a lease has expired is as old as its query: while the database delays the answer, clients may be
// unable to renew the lease.
func TestLateFindingEndsNoLease(t *testing.T) {
	t.Parallel()
	b := &lateAnswer{
		Shared: openShared(t, 1)[0].(backend.Shared), again: make(chan struct{}),
		resume: make(chan struct{}),
	}
	s := openStore(t, b, Config{})
	grant(t, s, 7, 2, "k")
	select {
	case <-b.again:
	case <-within(t).Done():
		t.Fatal("the store does not look for expired leases again")
	}
	if states, _, err := b.LeaseStates(within(t), []int64{7}); err != nil || len(states) != 1 {
		t.Fatalf("after a late result: %v, %v", states, err)
	}
	close(b.resume)
	eventually(t, "a timely result ends the lease", func() bool { return get(t, s, "k", 0) == nil })
}
