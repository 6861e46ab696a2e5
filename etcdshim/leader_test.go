package etcdshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// reach simulates a database that can become unreachable.
type reach struct{ none atomic.Pointer[chan struct{}] }

func newReach() *reach {
	r := &reach{}
	r.back()
	return r
}

func (r *reach) back() {
	c := make(chan struct{})
	r.none.Store(&c)
}

func (r *reach) lose() { close(*r.none.Load()) }

func (r *reach) noLeader() <-chan struct{} { return *r.none.Load() }

// outgoing is clientv3.WithRequireLeader for calls without clientv3.
func outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
}

func wantNoLeader(t *testing.T, what string, err error) {
	t.Helper()
	if want := rpctypes.ErrGRPCNoLeader; status.Code(err) != codes.Unavailable || !errors.Is(rpctypes.Error(err),
		rpctypes.Error(want)) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// While the database is unreachable, calls that require a leader are refused and their streams end; others continue.
// Afterwards all work again.
func TestRequireLeader(t *testing.T) {
	r := newReach()
	s := serve(t, Options{NoLeader: r.noLeader}, store.Config{})
	ctx := outgoing(t.Context())
	s.put(t, "a", "1")

	streams := map[string]func(context.Context) (grpc.ClientStream, error){
		"watch": func(ctx context.Context) (grpc.ClientStream, error) {
			w, err := s.watch.Watch(ctx)
			if err != nil {
				return nil, err
			}
			err = w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")},
			}})
			if err != nil && !errors.Is(err, io.EOF) { // the stream has ended: Recv returns the reason
				return nil, err
			}
			_, err = w.Recv()
			return w, err
		},
		"keep-alive": func(ctx context.Context) (grpc.ClientStream, error) {
			k, err := s.lease.LeaseKeepAlive(ctx)
			if err != nil {
				return nil, err
			}
			if err = k.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			_, err = k.Recv()
			return k, err
		},
	}
	requiring, plain := map[string]grpc.ClientStream{}, map[string]grpc.ClientStream{}
	for name, open := range streams {
		var err error
		if requiring[name], err = open(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plain[name], err = open(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	r.lose()
	for name, stream := range requiring {
		wantNoLeader(t, name+" under way", stream.RecvMsg(&pb.WatchResponse{}))
	}
	for name, open := range streams {
		_, err := open(ctx)
		wantNoLeader(t, name+", new", err)
	}
	_, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte("a")})
	wantNoLeader(t, "range", err)
	chunks, err := s.kv.RangeStream(ctx, &pb.RangeRequest{Key: []byte("a")})
	if err == nil {
		_, err = chunks.Recv()
	}
	wantNoLeader(t, "range stream", err)
	snapshot, err := s.maint.Snapshot(ctx, &pb.SnapshotRequest{})
	if err == nil {
		_, err = snapshot.Recv()
	}
	wantNoLeader(t, "snapshot", err)

	st, err := s.maint.Status(t.Context(), &pb.StatusRequest{})
	if err != nil || st.Leader != 0 || len(st.Errors) != 1 || st.Errors[0] != "etcdserver: no leader" ||
		st.RaftIndex != 2 {
		t.Errorf("status: %v, %v", st, err)
	}
	s.put(t, "a", "2") // requires no leader
	var event pb.WatchResponse
	if err := plain["watch"].RecvMsg(&event); err != nil || len(event.Events) != 1 {
		t.Errorf("a watch that requires no leader: %v, %v", &event, err)
	}
	r.back()
	for name, open := range streams {
		if _, err := open(ctx); err != nil {
			t.Errorf("%s after the database is back: %v", name, err)
		}
	}
	if _, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte("a")}); err != nil {
		t.Errorf("range after the database is back: %v", err)
	}
}

// A client's watch that requires a leader ends with etcd's error, by which the client knows to try another server.
func TestRequireLeaderInClient(t *testing.T) {
	r := newReach()
	s := serve(t, Options{NoLeader: r.noLeader}, store.Config{})
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.conn.Target()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := c.Watch(clientv3.WithRequireLeader(t.Context()), "a", clientv3.WithCreatedNotify())
	if created := <-w; !created.Created {
		t.Fatalf("%+v", created)
	}
	r.lose()
	if ended := <-w; !errors.Is(ended.Err(), rpctypes.ErrNoLeader) {
		t.Errorf("the watch ended with %v, want %v", ended.Err(), rpctypes.ErrNoLeader)
	}
}

// The client gets the error before its own deadline, with a text that makes clientv3 retry no write.
func TestUnavailableWithinTheDeadline(t *testing.T) {
	put := "/etcdserverpb.KV/Put"
	for name, c := range map[string]struct {
		method   string
		req      any
		deadline time.Duration // the client's, 0 for none
		want     time.Duration // when it is answered
		code     codes.Code
	}{
		"put":                 {put, &putRequest{}, 0, requestTimeout, codes.Unavailable},
		"put, patient client": {put, &putRequest{}, time.Minute, requestTimeout, codes.Unavailable},
		"put, hasty client":   {put, &putRequest{}, time.Second, time.Second - haste, codes.Unavailable},
		"put, in no time":     {put, &putRequest{}, haste, haste / 2, codes.Unavailable},
		"grant": {
			"/etcdserverpb.Lease/LeaseGrant", &pb.LeaseGrantRequest{}, 0, requestTimeout,
			codes.Unavailable,
		},
		"get": {
			"/etcdserverpb.KV/Range", &rangeRequest{}, 5 * time.Second,
			5*time.Second - haste, codes.Unavailable,
		},
		"long list": {
			"/etcdserverpb.KV/Range", &rangeRequest{}, time.Hour, time.Hour - haste,
			codes.Unavailable,
		},
		"what is the client's to end": {
			"/etcdserverpb.Maintenance/Defragment", nil, time.Minute, time.Minute,
			codes.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &admission{&leadership{newReach().noLeader}, &callers{}}
				ctx := t.Context()
				if c.deadline != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				began := time.Now()
				_, err := l.unary(ctx, c.req, &grpc.UnaryServerInfo{FullMethod: c.method}, slow)
				if took := time.Since(began); took != c.want || status.Code(err) != c.code {
					t.Errorf("after %v: %v, want %v after %v", took, err, c.code, c.want)
				}
			})
		})
	}
}

// slow is a handler that waits for a database that never answers.
func slow(ctx context.Context, _ any) (any, error) {
	<-ctx.Done()
	return nil, statusError(ctx, ctx.Err())
}

// A call that the client ends keeps its status, and no error of the database makes clientv3 retry a write.
func TestErrorsOfTheDatabase(t *testing.T) {
	l := &admission{&leadership{newReach().noLeader}, &callers{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.unary(ctx, &putRequest{}, &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Put"},
		slow); status.Code(err) != codes.Canceled {
		t.Errorf("cancelled by the client: %v", err)
	}
	for _, err := range []error{backend.ErrUnavailable, backend.ErrUnknownOutcome} {
		st := status.Convert(statusError(t.Context(), fmt.Errorf("write: %w", err)))
		if st.Code() != codes.Unavailable || st.Message() != "etcdserver: request timed out" {
			t.Errorf("%v becomes %v", err, st)
		}
	}
}
