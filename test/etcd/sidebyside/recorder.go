package sidebyside

import (
	"context"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// recorder is one watch stream to one server, with everything that it received.
type recorder struct {
	stream pb.Watch_WatchClient
	cancel context.CancelFunc

	mu      sync.Mutex
	got     []*pb.WatchResponse
	err     error         // that ended the stream
	changed chan struct{} // closed and renewed with every response
}

// record opens a stream; ctx bounds its life.
func record(ctx context.Context, s *side) (*recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.watch.Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	r := &recorder{stream: stream, cancel: cancel, changed: make(chan struct{})}
	go r.receive()
	return r, nil
}

func (r *recorder) receive() {
	for {
		resp, err := r.stream.Recv()
		r.mu.Lock()
		if err != nil {
			r.err = err
		} else {
			r.got = append(r.got, resp)
		}
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// responses returns what has arrived so far. The caller must not change the slice.
func (r *recorder) responses() []*pb.WatchResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[:len(r.got):len(r.got)]
}

// wait returns when done is true for the responses so far, or with an error when the stream or ctx ends first.
func (r *recorder) wait(ctx context.Context, what string, done func([]*pb.WatchResponse) bool) error {
	for {
		r.mu.Lock()
		got, err, changed := r.got[:len(r.got):len(r.got)], r.err, r.changed
		r.mu.Unlock()
		if done(got) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for %s: stream ended: %w", what, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

func (r *recorder) send(req *pb.WatchRequest) error { return r.stream.Send(req) }

func createRequest(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

func cancelRequest(id int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{
		WatchId: id,
	}}}
}

func progressRequest() *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
}
