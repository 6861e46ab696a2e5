package etcdshim

import (
	"context"
	"errors"
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// unanswered is a stream whose client has sent any number of requests and reads no answer until read permits it.
type unanswered struct {
	grpc.ServerStream
	ctx      context.Context
	read     chan struct{}
	last     int // requests after which the client closes its side
	received int
	enough   chan struct{} // closed when flowing requests have been received
	excess   chan struct{} // closed when the server reads one more
	answers  []int64
}

// flowing is how many requests may be in progress: one whose answer is being sent, and those whose answers wait.
const flowing = 1 + 16

func newUnanswered(ctx context.Context, last int) *unanswered {
	return &unanswered{
		ctx: ctx, last: last, read: make(chan struct{}), enough: make(chan struct{}),
		excess: make(chan struct{}),
	}
}

func (u *unanswered) Context() context.Context { return u.ctx }

func (u *unanswered) RecvMsg(m any) error {
	if u.received == u.last {
		return io.EOF
	}
	switch u.received++; u.received {
	case flowing:
		defer close(u.enough)
	case flowing + 1:
		close(u.excess)
	}
	m.(*pb.WatchRequest).RequestUnion = &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte("k"),
	}}
	return nil
}

func (u *unanswered) SendMsg(m any) error {
	select {
	case <-u.read:
		u.answers = append(u.answers, m.(*watchReply).watch)
		return nil
	case <-u.ctx.Done():
		return status.FromContextError(u.ctx.Err()).Err()
	}
}

// The server stops reading from a client that sends requests and reads no answers, so that the waiting answers do not
// grow.
func TestWatchRequestsWaitForAnswers(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	w := &watch{
		callers: &callers{},
		engine:  s.store, id: newIdentities(0, 0, func() int64 { return 0 }), maxBytes: 1 << 20,
		stopping: t.Context(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream := newUnanswered(ctx, 1_000_000)
	ended := make(chan error)
	go func() { ended <- w.serve(stream) }()
	<-stream.enough
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the stream ends with %v", err)
	}
	select {
	case <-stream.excess:
		t.Errorf("the server read more than %d requests while the client read no answer", flowing)
	default:
	}
}

// Once the client reads, it gets all answers, in order.
func TestWatchRequestsGoOn(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	w := &watch{
		callers: &callers{},
		engine:  s.store, id: newIdentities(0, 0, func() int64 { return 0 }), maxBytes: 1 << 20,
		stopping: t.Context(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const n = 10 * flowing
	stream := newUnanswered(ctx, n)
	ended := make(chan error)
	go func() { ended <- w.serve(stream) }()
	<-stream.enough
	for range n {
		stream.read <- struct{}{}
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the stream ends with %v", err)
	}
	if len(stream.answers) != n || stream.received != n {
		t.Fatalf("%d requests, %d answers, want %d", stream.received, len(stream.answers), n)
	}
	for i, id := range stream.answers {
		if id != int64(i) {
			t.Fatalf("answer %d is of watch %d", i, id)
		}
	}
}

// A server that stops does not wait for a client that reads no answers.
func TestServerStopsUnderUnansweredRequests(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	stream, err := s.watch.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sending := make(chan error)
	full := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			if i == 1000 {
				close(full)
			}
			err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
			}})
			if err != nil {
				sending <- err
				return
			}
		}
	}()
	<-full
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(now) // ends calls in flight immediately
	if err := <-sending; !errors.Is(err, io.EOF) {
		t.Errorf("sending ends with %v", err)
	}
}

// A server reads ahead up to the limit, and passes requests on in order.
func TestWatchRequestsReadAhead(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	watches := s.store.NewWatchStream()
	defer watches.Close()
	const n = 10 * readAhead
	ended := make(chan error, 1)
	stream := newUnanswered(t.Context(), n)
	receive := func(ctx context.Context) {
		w := &watcher{
			watch: &watch{engine: s.store, callers: &callers{}}, ctx: ctx, stream: stream, watches: watches,
		}
		ended <- w.receiveShared()
	}
	go receive(t.Context())
	for i := range n {
		if r, err := watches.Next(t.Context()); err != nil || !r.Created || r.ID != int64(i) {
			t.Fatalf("answer %d: %+v, %v", i, r, err)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("after the client closed its side: %v", err)
	}

	// While the client reads no answers it waits, as long as the stream exists.
	ctx, cancel := context.WithCancel(t.Context())
	stream = newUnanswered(ctx, 1_000_000)
	go receive(ctx)
	<-stream.enough
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
