package etcdshim

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// renewing blocks each statement that renews leases until the test decides its outcome. The TTL of a lease is its id.
type renewing struct {
	backend.Shared
	begun chan int // how many leases
	end   chan error
}

func (b *renewing) RenewLeases(ctx context.Context, ids []int64) (renewed []backend.Lease, err error) {
	for _, id := range ids {
		renewed = append(renewed, backend.Lease{ID: id, TTL: time.Duration(id) * time.Second})
	}
	select {
	case b.begun <- len(ids):
	case <-ctx.Done():
	}
	select {
	case err = <-b.end:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return renewed, err
}

// The server receives the requests of a stream while renewals are in progress, which share statements, and answers them
// in their order.
func TestKeepAlivesOfOneStream(t *testing.T) {
	b := &renewing{Shared: simdb.New(1, nil).Open(), begun: make(chan int), end: make(chan error)}
	t.Cleanup(func() { _ = b.Close() })
	s := serveOn(t, b, Options{}, store.Config{})
	keep, err := s.lease.LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	send := func(n int) {
		t.Helper()
		received, _ := s.Traffic()
		for range n {
			r := &pb.LeaseKeepAliveRequest{ID: next}
			received += uint64(proto.Size(r))
			if err := keep.Send(r); err != nil {
				t.Fatal(err)
			}
			next++
		}
		eventually(t, "the requests are received", func() bool { now, _ := s.Traffic(); return now >= received })
	}
	answered := int64(1)
	wantAnswers := func(before int64) {
		t.Helper()
		for ; answered < before; answered++ {
			if r, err := keep.Recv(); err != nil || r.ID != answered || r.TTL != answered {
				t.Fatalf("answer to %d: %v, %v", answered, r, err)
			}
		}
	}
	// renew lets statements succeed until they have renewed n leases.
	renew := func(n int) {
		t.Helper()
		for n > 0 {
			n -= <-b.begun
			b.end <- nil
		}
	}
	send(1)
	first := <-b.begun
	const rest = keepAlivesAtOnce - 1
	send(rest)
	b.end <- nil
	renew(1 + rest - first)
	wantAnswers(next)
	send(1)
	<-b.begun
	send(rest)
	b.end <- nil
	<-b.begun
	b.end <- backend.ErrUnavailable
	wantAnswers(answered + 1)
	go func() {
		for t.Context().Err() == nil {
			select {
			case <-b.begun:
			case b.end <- nil:
			case <-t.Context().Done():
			}
		}
	}()
	for err == nil {
		_, err = keep.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("after a failure: %v", err)
	}
}
