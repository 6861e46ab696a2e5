package durability

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// linearTimeout bounds the search for a linearization.
const linearTimeout = time.Minute

// Verify reads the history of an idle server since the last Verify, and checks it, what clients recorded, and what the
// watchers saw. The record then forgets its operations and continues from there. It is of no use once Verify has
// failed.
func (r *Record) Verify(ctx context.Context, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	now, err := r.Do(ctx, conn, All(0))
	if err != nil {
		return err
	}
	events, err := r.History(ctx, conn, r.Rev+1, now.Revision)
	if err != nil {
		return err
	}
	if n := len(events); n > 0 {
		if _, err := r.Do(ctx, conn, All(events[n/2].Revision)); err != nil {
			return err
		}
	}
	held, err := held(ctx, pb.NewLeaseClient(conn))
	if err != nil {
		return err
	}
	if err := r.check(events, held, now.Revision); err != nil {
		return err
	}
	for _, w := range r.watchers {
		if err := w.check(ctx, events, now.Revision); err != nil {
			return fmt.Errorf("watch of %q: %w", w.prefix, err)
		}
	}
	r.Rev = now.Revision
	r.Settle(held)
	return nil
}

// check checks everything but the watchers, and applies the events.
func (r *Record) check(events []history.Event, held map[int64]history.Held, to int64) error {
	ops, leases := r.Ops(), r.Leases()
	if err := errors.Join(history.Order(r.Base, events, r.Rev, to), history.Previous(r.Base, events)); err != nil {
		return err
	}
	if _, err := history.Answers(r.Base, ops, events, 0, linearTimeout); err != nil {
		return err
	}
	seen := map[int64]time.Duration{} // now at the latest
	for _, e := range events {
		seen[e.Revision] = r.Now()
	}
	r.Base.Apply(events...)
	return errors.Join(history.Leases(leases, events, seen, false), history.HeldLeases(leases, r.Base, held))
}

// held reads all leases.
func held(ctx context.Context, c pb.LeaseClient) (map[int64]history.Held, error) {
	list, err := c.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return nil, err
	}
	held := map[int64]history.Held{}
	for _, l := range list.Leases {
		resp, err := c.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: l.ID, Keys: true})
		if err != nil {
			return nil, err
		}
		var keys []string
		for _, key := range resp.Keys {
			keys = append(keys, string(key))
		}
		held[l.ID] = history.Held{
			TTL: time.Duration(resp.GrantedTTL) * time.Second, Left: time.Duration(resp.TTL) * time.Second, Keys: keys,
		}
	}
	return held, nil
}

// check compares what the watcher has seen with its part of the history.
func (w *watcher) check(ctx context.Context, events []history.Event, to int64) error {
	var want []history.Event
	last := int64(0)
	for _, e := range events {
		if strings.HasPrefix(e.Key, w.prefix) {
			want, last = append(want, e), e.Revision
		}
	}
	got, err := w.wait(ctx, last, to)
	if err != nil {
		return err
	}
	return history.Watch(got, want)
}
