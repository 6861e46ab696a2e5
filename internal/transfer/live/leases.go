package live

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

const (
	// leaseInterval is how often a follower reads the source's leases, which no watch reports.
	leaseInterval = 10 * time.Second
	// leaseRequests is how many leases are asked for at the same time.
	leaseRequests = 16
)

// copyLeases gives the target the leases of the source, and returns the source's revision.
func copyLeases(ctx context.Context, client *clientv3.Client, to *transfer.Following) (revision int64, err error) {
	all, revision, err := listLeases(ctx, client)
	if err != nil {
		return 0, err
	}
	leases := make([]backend.Lease, 0, len(all))
	var unknown []int64
	for _, id := range all {
		if to.HasLease(id) {
			leases = append(leases, backend.Lease{ID: id})
		} else {
			unknown = append(unknown, id)
		}
	}
	states, err := leaseStates(ctx, client, unknown)
	if err != nil {
		return 0, err
	}
	for _, s := range states {
		if s.Remaining > 0 {
			leases = append(leases, s.Lease)
		}
	}
	return revision, to.SetLeases(ctx, leases)
}

func listLeases(ctx context.Context, client *clientv3.Client) (ids []int64, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	all, err := client.Leases(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: read leases: %w", backend.ErrSource, err)
	}
	ids = make([]int64, len(all.Leases))
	for i, l := range all.Leases {
		ids[i] = int64(l.ID)
	}
	return ids, all.Revision, nil
}

// remainingOf returns the remaining time of leases, 0 for those that have ended.
func remainingOf(ctx context.Context, client *clientv3.Client, ids []int64) (map[int64]time.Duration, error) {
	states, err := leaseStates(ctx, client, ids)
	remaining := make(map[int64]time.Duration, len(states))
	for _, s := range states {
		remaining[s.ID] = s.Remaining
	}
	return remaining, err
}

// leaseStates asks for leases. A server rounds the remaining time down to whole seconds: it is rounded up here, so that
// no lease ends earlier than at the source.
func leaseStates(ctx context.Context, client *clientv3.Client, ids []int64) ([]backend.LeaseState, error) {
	states := make([]backend.LeaseState, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(leaseRequests)
	for i, id := range ids {
		group.Go(func() error {
			left, err := client.TimeToLive(ctx, clientv3.LeaseID(id))
			if err != nil {
				return fmt.Errorf("%w: read a lease: %w", backend.ErrSource, err)
			}
			states[i].Lease = backend.Lease{ID: id, TTL: time.Duration(left.GrantedTTL) * time.Second}
			if left.TTL >= 0 {
				states[i].Remaining = time.Duration(left.TTL+1) * time.Second
			}
			return nil
		})
	}
	return states, group.Wait()
}
