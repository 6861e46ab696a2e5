package store

import (
	"context"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// lateAnswer passes the first finding of leases that have ended on when it is too old to be acted upon, and reports
// the next look.
type lateAnswer struct {
	backend.Shared
	late   bool
	again  chan struct{} // the next look says so
	resume chan struct{} // and waits until this is closed
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

// A finding that a lease has ended is as old as its question: nobody may have been able to renew while the database
// kept the answer.
func TestLateFindingEndsNoLease(t *testing.T) {
	b := &lateAnswer{
		Shared: openShared(t, 1)[0].(backend.Shared), again: make(chan struct{}),
		resume: make(chan struct{}),
	}
	s := openStore(t, b, Config{})
	grant(t, s, 7, 2, "k")
	select {
	case <-b.again:
	case <-within(t).Done():
		t.Fatal("no second look for leases that have ended")
	}
	if states, _, err := b.LeaseStates(within(t), []int64{7}); err != nil || len(states) != 1 {
		t.Fatalf("after a finding that came late: %v, %v", states, err)
	}
	close(b.resume)
	eventually(t, "the lease ends by a finding in time", func() bool { return get(t, s, "k", 0) == nil })
}
