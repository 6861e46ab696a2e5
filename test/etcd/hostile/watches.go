package hostile

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func watchAbuses() []abuse {
	return []abuse{
		{
			name: "watches on one stream, unread", short: 10_000, full: 200_000, lingers: true,
			attack: func(ctx context.Context, t *target, n int) (int, error) {
				return unreadWatches(ctx, t, n, 1, &pb.WatchCreateRequest{Key: []byte("nothing")})
			},
		},
		{
			name: "watches of all history, unread", short: 3_000, full: 45_000, objects: 10_000, lingers: true,
			attack: func(ctx context.Context, t *target, n int) (int, error) {
				return unreadWatches(ctx, t, n, 8, &pb.WatchCreateRequest{
					Key: []byte{0}, RangeEnd: []byte{0},
					StartRevision: 1, PrevKv: true,
				})
			},
		},
		{
			name: "watches that miss 100 KiB a write", short: 200, full: 2_000, lingers: true, keeps: 24 << 20,
			attack: missedWrites,
		},
		{name: "watches created and canceled", short: 20_000, full: 300_000, attack: createAndCancel},
		{name: "progress requests, unread", short: 50_000, full: 500_000, lingers: true, attack: progressRequests},
	}
}

func createWatch(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// watchStreams sends n requests over several streams, each on its own connection, and reads no answers.
func watchStreams(ctx context.Context, t *target, n, streams int, send func(f *framed, id uint32, i int) error) (int,
	error,
) {
	return spread(n, streams, func(_, n int) (int, error) {
		f, err := t.http2(ctx)
		if err != nil {
			return 0, err
		}
		keep(f.Conn)
		id, err := f.call(pb.Watch_Watch_FullMethodName, nil, false)
		if err != nil {
			return 0, err
		}
		for i := range n {
			if !taken(send(f, id, i)) {
				return i, nil
			}
		}
		return n, f.out.Flush()
	})
}

func unreadWatches(ctx context.Context, t *target, n, streams int, r *pb.WatchCreateRequest) (int, error) {
	raw := message(createWatch(r))
	ctx, cancel := briefly(ctx)
	defer cancel()
	return watchStreams(ctx, t, n, streams, func(f *framed, id uint32, _ int) error {
		return f.WriteData(id, false, raw)
	})
}

func progressRequests(ctx context.Context, t *target, n int) (int, error) {
	raw := message(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
		ProgressRequest: &pb.WatchProgressRequest{},
	}})
	ctx, cancel := briefly(ctx)
	defer cancel()
	return watchStreams(ctx, t, n, 8, func(f *framed, id uint32, _ int) error { return f.WriteData(id, false, raw) })
}

// missedWrites writes keys that twenty streams watch without reading.
func missedWrites(ctx context.Context, t *target, n int) (int, error) {
	key := []byte("missed")
	for range 20 {
		if _, err := unreadWatches(ctx, t, 1, 1, &pb.WatchCreateRequest{Key: key, PrevKv: true}); err != nil {
			return 0, err
		}
	}
	conn, err := t.grpc()
	if err != nil {
		return 0, err
	}
	kv := pb.NewKVClient(conn)
	value := bytes.Repeat([]byte("x"), 100<<10)
	for i := range n {
		if _, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: value}); err != nil {
			return i, err
		}
	}
	return n, nil
}

// createAndCancel creates watches, cancels each at once and reads all answers.
func createAndCancel(ctx context.Context, t *target, n int) (int, error) {
	return spread(n, 8, func(_, n int) (int, error) {
		conn, err := t.grpc()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		stream, err := pb.NewWatchClient(conn).Watch(ctx)
		if err != nil {
			return 0, err
		}
		go func() {
			for i := range n {
				id := int64(i + 1)
				if stream.Send(createWatch(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: id})) != nil ||
					stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
						CancelRequest: &pb.WatchCancelRequest{WatchId: id},
					}}) != nil {
					return
				}
			}
		}()
		for canceled := 0; canceled < n; {
			r, err := stream.Recv()
			if err != nil {
				return canceled, err
			}
			if r.Canceled {
				canceled++
			}
		}
		return n, nil
	})
}
