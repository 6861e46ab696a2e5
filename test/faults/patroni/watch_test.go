package patroni

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch follows the load over one replica, as an informer does: when its stream ends it continues after the last event
// seen.
type watch struct {
	of     string
	client *clientv3.Client
	// requireLeader lets the replica end the stream while it has no database, as kube-apiserver requests; without it
	// the stream must survive everything.
	requireLeader bool
	next          int64
	seen          chan struct{} // signals a new event; capacity 1

	mu     sync.Mutex
	events []event
	opened int   // how often, not counting the current stream
	err    error // that ends the watch: lost history
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(pace) // without a database the stream ends at once
	defer tick.Stop()
	for ctx.Err() == nil && w.failed() == nil {
		<-tick.C
		asking, cancel := context.WithCancel(ctx)
		if w.requireLeader {
			asking = clientv3.WithRequireLeader(asking)
		}
		for r := range w.client.Watch(asking, prefix, clientv3.WithPrefix(), clientv3.WithRev(w.next)) {
			w.take(r)
		}
		cancel()
		w.mu.Lock()
		w.opened++
		w.mu.Unlock()
	}
}

func (w *watch) take(r clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.CompactRevision != 0 {
		w.err = fmt.Errorf("watch of %s: revision %d is reported as compacted, but nothing compacts", w.of, w.next)
	}
	for _, e := range r.Events {
		w.events = append(w.events, event{string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision})
		w.next = e.Kv.ModRevision + 1
	}
	select {
	case w.seen <- struct{}{}:
	default:
	}
}

func (w *watch) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// through waits until the watch has seen a revision, and returns everything it has seen and how often it had to be
// reopened.
func (w *watch) through(ctx context.Context, revision int64) (events []event, reopened int, err error) {
	for {
		w.mu.Lock()
		events, reopened, err = w.events, w.opened, w.err
		w.mu.Unlock()
		if err != nil || len(events) > 0 && events[len(events)-1].revision >= revision {
			return events, reopened, err
		}
		select {
		case <-w.seen:
		case <-ctx.Done():
			return events, reopened, fmt.Errorf("watch of %s: revision %d is not seen: %w", w.of, revision, ctx.Err())
		}
	}
}
