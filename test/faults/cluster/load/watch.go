package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// Watch is a watch that continues across all failures, until its revision is compacted.
type Watch struct {
	Name   string
	Prefix string // empty for everything
	from   int64
	leader bool // requires a leader, and its stream ends when the replica has lost its database

	mu        sync.Mutex
	events    []history.Event
	seen      map[int64]time.Duration // when each revision arrived, by the journal's clock
	compacted int64
	ended     int // how often the client ended it
	changed   chan struct{}
}

// watch starts a watch and returns its client.
func (r *Run) watch(tb testing.TB, w *Watch, endpoints ...string) *clientv3.Client {
	tb.Helper()
	w.from, w.seen, w.changed = r.From+1, map[int64]time.Duration{}, make(chan struct{})
	c := connect(tb, endpoints...)
	r.Watches = append(r.Watches, w)
	r.watching.Go(func() {
		for r.watchCtx.Err() == nil && w.open(r.watchCtx, r, c) {
		}
	})
	return c
}

// open watches until the client ends the watch, and reports whether to open it again.
func (w *Watch) open(ctx context.Context, r *Run, c *clientv3.Client) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.leader {
		ctx = clientv3.WithRequireLeader(ctx)
	}
	key, opts := w.Prefix, []clientv3.OpOption{clientv3.WithRev(w.next()), clientv3.WithPrefix()}
	if key == "" {
		key, opts[1] = "\x00", clientv3.WithFromKey()
	}
	for resp := range c.Watch(ctx, key, opts...) {
		w.take(r, resp)
		if resp.CompactRevision != 0 {
			return false
		}
		if err := resp.Err(); err != nil && ctx.Err() == nil && !r.expects(err) &&
			!errors.Is(err, rpctypes.ErrNoLeader) {
			r.violation(fmt.Errorf("watch of %s: %w", w.Name, err))
		}
	}
	w.mu.Lock()
	w.ended++
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	select { // not at full speed while no server answers
	case <-ctx.Done():
	case <-time.After(pace):
	}
	return true
}

func (w *Watch) next() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nextLocked()
}

func (w *Watch) take(r *Run, resp clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := r.Journal.Now()
	for _, e := range resp.Events {
		if n := len(w.events); n > 0 && e.Kv.ModRevision < w.events[n-1].Revision {
			r.violation(fmt.Errorf("watch of %s received revision %d after %d", w.Name, e.Kv.ModRevision,
				w.events[n-1].Revision))
		}
		w.events = append(w.events, event(e))
		w.seen[e.Kv.ModRevision] = now
	}
	w.compacted = max(w.compacted, resp.CompactRevision)
	close(w.changed)
	w.changed = make(chan struct{})
}

func event(e *clientv3.Event) history.Event {
	return history.Event{
		Key: string(e.Kv.Key), Value: string(e.Kv.Value), Deleted: e.Type == mvccpb.DELETE,
		Revision: e.Kv.ModRevision, Create: e.Kv.CreateRevision, Version: e.Kv.Version, Lease: e.Kv.Lease,
	}
}

// Wait waits until the watch has seen its part of a history, and returns the events and when they arrived.
func (w *Watch) Wait(ctx context.Context, full []history.Event) (got, want []history.Event,
	seen map[int64]time.Duration,
) {
	for _, e := range full {
		if strings.HasPrefix(e.Key, w.Prefix) {
			want = append(want, e)
		}
	}
	// The caller compares the two, and so finds what is missing.
	_ = w.until(ctx, func() bool { return len(w.events) >= len(want) })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events, want, w.seen
}

// WaitCompacted waits until the watch has ended as compacted, and returns the compacted revision.
func (w *Watch) WaitCompacted(ctx context.Context) (int64, error) {
	err := w.until(ctx, func() bool { return w.compacted != 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("watch of %s did not end as compacted; it has seen revision %d and ended %d times: %w", w.Name,
			w.nextLocked()-1, w.ended, err)
	}
	return w.compacted, err
}

// WaitEnded waits until the client has ended the watch because its stream ended.
func (w *Watch) WaitEnded(ctx context.Context) error {
	if err := w.until(ctx, func() bool { return w.ended > 0 }); err != nil {
		return fmt.Errorf("watch of %s does not end: %w", w.Name, err)
	}
	return nil
}

// WaitRevision waits until the watch has seen a revision.
func (w *Watch) WaitRevision(ctx context.Context, rev int64) error {
	if err := w.until(ctx, func() bool { return w.nextLocked() > rev }); err != nil {
		return fmt.Errorf("watch of %s does not reach revision %d: %w", w.Name, rev, err)
	}
	return nil
}

// Ended returns how often the client ended the watch because its stream ended.
func (w *Watch) Ended() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func (w *Watch) nextLocked() int64 {
	if len(w.events) == 0 {
		return w.from
	}
	return w.events[len(w.events)-1].Revision + 1
}

// until waits for a condition, which it checks under the lock.
func (w *Watch) until(ctx context.Context, done func() bool) error {
	for {
		w.mu.Lock()
		ok, changed := done(), w.changed
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
