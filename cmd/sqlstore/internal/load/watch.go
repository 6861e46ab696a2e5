package load

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// settle is how long a watch may take to begin, and to receive the last update.
const settle = 10 * time.Second

// errLate is the failure of a watch that does not receive what was written.
var errLate = errors.New("the watch has not received all updates in time")

// watcher measures how long updates take to reach a watch, by the times in their values.
type watcher struct {
	load    *load
	cancel  context.CancelFunc
	done    sync.WaitGroup
	began   time.Time
	samples samples
	last    atomic.Int64  // revision of the last event
	news    chan struct{} // capacity 1
}

// watch begins to watch the keys.
func (l *load) watch(ctx context.Context) *watcher {
	w := &watcher{load: l, began: time.Now(), news: make(chan struct{}, 1)}
	ctx, w.cancel = context.WithCancel(clientv3.WithRequireLeader(ctx))
	events := l.Clients[0].Watch(ctx, l.Prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	created := make(chan struct{})
	w.done.Go(func() {
		for r := range events {
			if r.Created {
				close(created)
			}
			w.receive(r)
		}
	})
	select {
	case <-created:
	case <-ctx.Done():
	case <-time.After(settle): // result reports it
	}
	return w
}

func (w *watcher) receive(r clientv3.WatchResponse) {
	now := time.Now().UnixNano()
	if err := r.Err(); err != nil {
		w.samples.add(0, err)
	}
	for _, e := range r.Events {
		if len(e.Kv.Value) >= stampSize {
			w.samples.add(time.Duration(now-int64(binary.BigEndian.Uint64(e.Kv.Value))), nil)
		}
		w.last.Store(e.Kv.ModRevision)
	}
	select {
	case w.news <- struct{}{}:
	default: // noticed with the last one
	}
}

// result waits for the last update, and ends the watch.
func (w *watcher) result(ctx context.Context) Result {
	newest := w.load.updated.Load()
	late := time.After(settle)
	for complete := false; !complete && ctx.Err() == nil; complete = complete || w.last.Load() >= newest {
		select {
		case <-w.news:
		case <-ctx.Done():
		case <-late:
			complete = true
		}
	}
	elapsed := time.Since(w.began)
	w.cancel()
	w.done.Wait()
	if ctx.Err() == nil && w.last.Load() < newest {
		w.samples.add(0, errLate)
	}
	return summarize("watch", []samples{w.samples}, elapsed)
}
