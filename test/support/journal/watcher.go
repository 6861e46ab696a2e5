package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Watcher watches a range across all restarts of the server: when its stream ends it opens another one, at the revision
// after the last one seen.
type Watcher struct {
	key, end string
	conn     *grpc.ClientConn

	mu      sync.Mutex
	events  []*mvccpb.Event // not yet taken
	seen    int64           // revision up to which everything has arrived
	err     error           // what no correct server sends
	changed chan struct{}
}

// Watch starts a watcher, which ends with ctx.
func Watch(ctx context.Context, endpoint, key, end string) (*Watcher, error) {
	conn, err := grpc.NewClient("passthrough:///"+endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay:  20 * time.Millisecond,
			Multiplier: 1, MaxDelay: 20 * time.Millisecond,
		}}))
	if err != nil {
		return nil, err
	}
	w := &Watcher{key: key, end: end, conn: conn, seen: 1, changed: make(chan struct{})}
	go func() {
		defer conn.Close()
		for ctx.Err() == nil && w.broken() == nil {
			w.stream(ctx)
		}
	}()
	return w, nil
}

func (w *Watcher) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stream watches until the stream ends.
func (w *Watcher) stream(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := pb.NewWatchClient(w.conn).Watch(ctx, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	err = s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(w.key), RangeEnd: []byte(w.end), StartRevision: w.upTo() + 1, PrevKv: true, ProgressNotify: true,
	}}})
	for err == nil {
		var r *pb.WatchResponse
		if r, err = s.Recv(); err == nil {
			w.take(r)
		}
	}
}

func (w *Watcher) upTo() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// take adds a response's events.
func (w *Watcher) take(r *pb.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil || r.Created && !r.Canceled:
		return
	case r.Canceled:
		w.err = fmt.Errorf("watch of %q from %d was canceled: %v", w.key, w.seen+1, r)
	case len(r.Events) == 0: // progress
		w.seen = max(w.seen, r.Header.Revision)
	case r.Events[0].Kv.ModRevision <= w.seen:
		w.err = fmt.Errorf("watch of %q received revision %d again or late, after %d", w.key,
			r.Events[0].Kv.ModRevision, w.seen)
	default:
		w.events = append(w.events, r.Events...)
		w.seen = r.Events[len(r.Events)-1].Kv.ModRevision // a revision is never split over responses
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait returns the events up to a revision that has some, once they have arrived.
func (w *Watcher) wait(ctx context.Context, rev int64) ([]*mvccpb.Event, error) {
	for {
		w.mu.Lock()
		events, seen, err, changed := w.events, w.seen, w.err, w.changed
		if err == nil && seen >= rev {
			w.events = nil
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
			return nil, fmt.Errorf("watch of %q waits for revision %d and has seen %d: %w", w.key, rev, seen, ctx.Err())
		}
	}
}

// skip records that nothing happened in this range up to a revision, which may be compacted soon.
func (w *Watcher) skip(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = max(w.seen, rev)
}

// matches reports whether an event belongs to the watched range.
func (w *Watcher) matches(e *mvccpb.Event) bool {
	return string(e.Kv.Key) >= w.key && (w.end == "\x00" || string(e.Kv.Key) < w.end)
}
