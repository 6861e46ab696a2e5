package durability

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// watcher watches a prefix across all restarts of the server: when its stream ends it opens another one, at the
// revision after the last one seen.
type watcher struct {
	prefix string
	record *Record
	conn   *grpc.ClientConn

	mu      sync.Mutex
	events  []history.Event // not yet taken
	seen    int64           // revision up to which everything has arrived
	err     error           // what no correct server sends
	changed chan struct{}
}

// Watch starts a watcher, which ends with ctx. Verify compares what it sees with the history.
func (r *Record) Watch(ctx context.Context, endpoint, prefix string) error {
	conn, err := dial(endpoint, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{
			BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond,
		},
		MinConnectTimeout: 2 * time.Second,
	}))
	if err != nil {
		return err
	}
	w := r.newWatcher(conn, prefix, r.Rev)
	r.watchers = append(r.watchers, w)
	go func() {
		defer conn.Close()
		for ctx.Err() == nil && w.stream(ctx) {
		}
	}()
	return nil
}

func (r *Record) newWatcher(conn *grpc.ClientConn, prefix string, seen int64) *watcher {
	return &watcher{prefix: prefix, record: r, conn: conn, seen: seen, changed: make(chan struct{})}
}

// History reads all events of the revisions from..to.
func (r *Record) History(ctx context.Context, conn *grpc.ClientConn, from, to int64) ([]history.Event, error) {
	if from > to {
		return nil, nil
	}
	w := r.newWatcher(conn, "", from-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go w.stream(ctx)
	return w.wait(ctx, to, to)
}

// stream watches until the stream ends, and reports whether the server may have sent what it did.
func (w *watcher) stream(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := pb.NewWatchClient(w.conn).Watch(ctx, grpc.WaitForReady(true))
	if err != nil {
		return true
	}
	key, end := span(w.prefix)
	w.mu.Lock()
	from := w.seen + 1
	w.mu.Unlock()
	err = s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: key, RangeEnd: end, StartRevision: from, PrevKv: true, ProgressNotify: true,
	}}})
	for err == nil {
		var r *pb.WatchResponse
		if r, err = s.Recv(); err == nil && !w.take(r) {
			return false
		}
	}
	return true
}

// take adds a response's events, and reports whether the server may send it.
func (w *watcher) take(r *pb.WatchResponse) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.Created && !r.Canceled:
	case r.Canceled:
		w.err = fmt.Errorf("watch of %q from %d was canceled: %v", w.prefix, w.seen+1, r)
	case len(r.Events) == 0: // progress
		w.seen = max(w.seen, r.Header.Revision)
	case r.Events[0].Kv.ModRevision <= w.seen:
		w.err = fmt.Errorf("watch of %q received revision %d again or late, after %d", w.prefix,
			r.Events[0].Kv.ModRevision, w.seen)
	default:
		for _, e := range r.Events {
			w.events = append(w.events, w.record.event(e))
		}
		w.seen = r.Events[len(r.Events)-1].Kv.ModRevision // a revision is never split over responses
	}
	close(w.changed)
	w.changed = make(chan struct{})
	return w.err == nil
}

// wait returns the events up to a revision that has some, once they have arrived. After it, nothing happened in the
// range through another one, which may be compacted soon.
func (w *watcher) wait(ctx context.Context, rev, through int64) ([]history.Event, error) {
	for {
		w.mu.Lock()
		events, seen, err, changed := w.events, w.seen, w.err, w.changed
		if err == nil && seen >= rev {
			w.events, w.seen = nil, max(seen, through)
			w.mu.Unlock()
			return events, nil
		}
		w.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("watch of %q waits for revision %d and has seen %d: %w", w.prefix, rev, seen,
				ctx.Err())
		}
	}
}
