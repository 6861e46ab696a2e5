package load

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	shortTTL = 2 // seconds, for leases that expire during the load
	keptTTL  = 8 // seconds, longer than others may wait for a frozen replica
	// renewal is how often a lease is kept alive, keepTimeout how long to wait for an answer before asking the next
	// replica.
	renewal     = 500 * time.Millisecond
	keepTimeout = 1500 * time.Millisecond
)

// leases grants one lease after another until ctx ends, puts two keys with each, keeps it alive for a while and then
// lets it expire.
func (c *client) leases(ctx context.Context) {
	for c.lease(ctx) || wait(ctx, 10*pace) == nil {
	}
}

// lease grants one lease. It returns false if that failed, or if ctx has ended.
func (c *client) lease(ctx context.Context) bool {
	// Not bounded by ctx: a request in progress when the load ends gets its answer.
	op, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
	defer cancel()
	sent := c.j.Now()
	r, err := c.Grant(op, shortTTL)
	if err != nil {
		c.run.grantFailed(sent, err)
		c.expect(op, err)
		return false // an unknown lease, without keys
	}
	id := int64(r.ID)
	c.j.Granted(id, time.Duration(r.TTL)*time.Second, sent)
	keys := []string{fmt.Sprintf("%s%d/a", history.LeasePrefix, id), fmt.Sprintf("%s%d/b", history.LeasePrefix, id)}
	c.put(op, r.ID, keys...)
	for range c.IntN(6) {
		if wait(ctx, renewal) != nil || !c.renew(ctx, r.ID) {
			break
		}
	}
	return ctx.Err() == nil
}

// renew keeps a lease alive once, and reports whether it still exists.
func (c *client) renew(ctx context.Context, id clientv3.LeaseID) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	sent := c.j.Now()
	_, err := c.KeepAliveOnce(ctx, id)
	switch {
	case err == nil:
		c.j.Renewed(int64(id), sent)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		c.j.Missed(int64(id))
		return false
	default:
		c.expect(ctx, err)
	}
	return true
}

// expect records an error as a violation unless clients must expect it. At the deadline, versions before schema version
// 6 may answer that the request was cancelled.
func (c *client) expect(ctx context.Context, err error) {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) && code(err) == codes.Canceled {
		return
	}
	if !c.run.expects(err) {
		c.run.violation(err)
	}
}

// keep grants a lease through one replica, puts a key with it, and keeps it alive through all.
func (r *Run) keep(tb testing.TB, endpoint string) {
	tb.Helper()
	op, cancel := context.WithTimeout(r.ctx, opTimeout)
	defer cancel()
	c := &client{id: 1000 + len(r.Keepers), run: r, j: r.Journal, Client: connect(tb, endpoint)}
	sent := r.Journal.Now()
	lease, err := c.Grant(op, keptTTL)
	if err != nil {
		tb.Fatalf("grant a lease before any fault: %v", err)
	}
	key := fmt.Sprintf("kept/%d", lease.ID)
	r.Journal.Granted(int64(lease.ID), time.Duration(lease.TTL)*time.Second, sent)
	if !c.put(op, lease.ID, key) {
		tb.Fatal("a put before any fault failed")
	}
	r.Keepers = append(r.Keepers, lease.ID)
	r.load.Go(func() {
		for i := 0; wait(r.ctx, renewal) == nil; i++ {
			// One client per replica: a stream to a silent one must not hold up the others.
			if !r.renewer(i).renew(r.ctx, lease.ID) {
				r.violation(fmt.Errorf("lease %d is gone though it was always kept alive", lease.ID))
				return
			}
		}
	})
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
