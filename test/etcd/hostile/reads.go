package hostile

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func readAbuses() []abuse {
	unread := func(method string, request proto.Message) func(context.Context, *target, int) (int, error) {
		return func(ctx context.Context, t *target, n int) (int, error) {
			return unreadCalls(ctx, t, n, method, request)
		}
	}
	return []abuse{
		{name: "lists, reset at once", secure: true, short: 60_000, full: 560_000, objects: 10_000, attack: resetReads},
		{name: "lists at once, read", short: 100, full: 2_000, objects: 10_000, attack: readLists},
		{
			name: "lists that nobody reads", short: 64, full: 1_000, objects: 10_000, lingers: true,
			attack: unread(pb.KV_Range_FullMethodName, everything),
		},
		{
			name: "range streams that nobody reads", short: 200, full: 4_000, objects: 10_000, lingers: true,
			attack: unread(pb.KV_RangeStream_FullMethodName, everything),
		},
		{
			name: "snapshots that nobody reads", short: 20, full: 200, objects: 10_000, lingers: true,
			attack: unread(pb.Maintenance_Snapshot_FullMethodName, &pb.SnapshotRequest{}),
		},
		{
			name: "connections that nobody reads", short: 200, full: 1_000, objects: 10_000, lingers: true,
			attack: unreadConnections,
		},
	}
}

// everything requests all keys and values.
var everything = &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}

// resetReads starts reads of everything and cancels each in the next frame.
func resetReads(ctx context.Context, t *target, n int) (int, error) {
	request := message(everything)
	return t.flood(ctx, n, func(f *framed) error {
		id, err := f.call(pb.KV_Range_FullMethodName, request, true)
		if err != nil {
			return err
		}
		return f.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

// readLists reads everything as often as a client may, and discards the answers.
func readLists(ctx context.Context, t *target, n int) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		conn, err := t.grpc()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		return spread(n, n, func(int, int) (int, error) {
			var raw []byte
			if err := conn.Invoke(ctx, pb.KV_Range_FullMethodName, mustMarshal(everything), &raw,
				grpc.ForceCodecV2(rawCodec{})); err != nil {
				return 0, err
			}
			return 1, nil
		})
	})
}

// unreadCalls starts calls whose answers do not fit into the flow-control window.
func unreadCalls(ctx context.Context, t *target, n int, method string, request proto.Message) (int, error) {
	raw := message(request)
	return spread(n, connections, func(_, n int) (int, error) {
		f, err := t.http2(ctx)
		if err != nil {
			return 0, err
		}
		f.drain()
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			return 0, err
		}
		for i := range n {
			if _, err := f.call(method, raw, true); err != nil {
				return i, fmt.Errorf("call %d: %w", i, err)
			}
		}
		return n, f.out.Flush()
	})
}

// unreadConnections sends calls on connections from which nothing is ever read.
func unreadConnections(ctx context.Context, t *target, n int) (int, error) {
	raw := message(everything)
	return spread(n, connections, func(_, n int) (int, error) {
		f, err := t.http2(ctx)
		if err != nil {
			return 0, err
		}
		for range n {
			if _, err := f.call(pb.KV_Range_FullMethodName, raw, true); err != nil {
				return 0, err
			}
		}
		return n, f.out.Flush()
	})
}

func mustMarshal(m proto.Message) []byte {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err) // this package's own requests are valid
	}
	return raw
}
