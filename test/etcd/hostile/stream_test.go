package hostile

import (
	"context"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

func watchOf(key string) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(key), PrevKv: true,
	}}}
}

// A hundred thousand watches of one key on one stream: each gets the event when the key changes, and other clients do
// not wait for that.
func TestManyWatches(t *testing.T) {
	const watches = 100_000
	v := startVictim(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := pb.NewWatchClient(dial(t, v.Endpoint())).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range watches {
			if stream.Send(watchOf("watched")) != nil {
				return
			}
		}
	}()
	receive := func(what string, counts func(*pb.WatchResponse) bool) {
		t.Helper()
		for n := 0; n < watches; {
			r, err := stream.Recv()
			if err != nil {
				t.Fatalf("%d of %d %s: %v", n, watches, what, err)
			}
			if counts(r) {
				n++
			}
		}
	}
	receive("created", func(r *pb.WatchResponse) bool { return r.Created })
	v.healthy(t)
	if _, err := v.kv.Put(ctx, &pb.PutRequest{Key: []byte("watched")}); err != nil {
		t.Fatal(err)
	}
	v.healthy(t)
	receive("told", func(r *pb.WatchResponse) bool { return len(r.Events) == 1 })
	cancel()
	v.healthy(t)
}

// Streams that are opened, used a little and dropped, by many connections at once.
func TestDroppedStreams(t *testing.T) {
	v := startVictim(t)
	var wg sync.WaitGroup
	for range 8 {
		conn := dial(t, v.Endpoint())
		wg.Go(func() {
			for i := range 300 {
				drop(t.Context(), conn, i)
			}
		})
	}
	wg.Wait()
	v.healthy(t)
}

func drop(ctx context.Context, conn *grpc.ClientConn, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch i % 4 {
	case 0:
		if s, err := pb.NewWatchClient(conn).Watch(ctx); err == nil {
			for range i % 10 {
				_ = s.Send(watchOf("health"))
			}
		}
	case 1:
		if s, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx); err == nil {
			_ = s.Send(&pb.LeaseKeepAliveRequest{ID: int64(i)})
		}
	case 2:
		_, _ = pb.NewMaintenanceClient(conn).Snapshot(ctx, &pb.SnapshotRequest{})
	default:
		_, _ = pb.NewKVClient(conn).RangeStream(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	}
}
