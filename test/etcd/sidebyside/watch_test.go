package sidebyside

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// within bounds a wait for something that comes at once, or soon on a slow machine.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func startBoth(t *testing.T, args ...string) (etcd, target *side) {
	t.Helper()
	args = append(args, "--unsafe-no-fsync")
	return dial(t, "etcd", servers.Etcd(t, args...).Endpoint()), dialAll(t, "target", servers.Targets(t, args...))
}

// An expiring lease deletes its keys: in key order, at one revision, with the old values in the events.
func TestLeaseExpiry(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	etcd, target := startBoth(t)
	p := newPlayer(etcd, target)
	ctx := within(t)
	streams, err := openPair(t.Context(), etcd, target, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := streams.create(ctx, &pb.WatchCreateRequest{
		Key: []byte{0}, RangeEnd: []byte{0},
		PrevKv: true,
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []call{
		grantCall(&pb.LeaseGrantRequest{ID: 1, TTL: 2}),
		grantCall(&pb.LeaseGrantRequest{ID: 2, TTL: 3600}),
		putCall(&pb.PutRequest{Key: []byte("b"), Value: []byte("1"), Lease: 1}),
		putCall(&pb.PutRequest{Key: []byte("a"), Value: []byte("2"), Lease: 1}),
		putCall(&pb.PutRequest{Key: []byte("moved"), Lease: 1}),
		putCall(&pb.PutRequest{Key: []byte("moved"), Lease: 2}),
		putCall(&pb.PutRequest{Key: []byte("detached"), Lease: 1}),
		putCall(&pb.PutRequest{Key: []byte("detached")}),
	} {
		if err := p.ask(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	gone := p.rev + 1
	expired := func(got []*pb.WatchResponse) bool {
		return slices.ContainsFunc(got, func(r *pb.WatchResponse) bool {
			return len(r.Events) > 0 && r.Events[0].Kv.ModRevision == gone
		})
	}
	for _, r := range []*recorder{streams.etcd, streams.target} {
		if err := r.wait(ctx, "the lease's end", expired); err != nil {
			t.Fatal(err)
		}
	}
	p.rev = gone
	if err := p.rest(ctx, streams); err != nil {
		t.Error(err)
	}
	for _, c := range []call{
		rangeCall(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}),
		timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: 1, Keys: true}),
		timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: 2, Keys: true}),
		keepAliveCall(&pb.LeaseKeepAliveRequest{ID: 1}),
		leasesCall(),
	} {
		if err := p.ask(ctx, c); err != nil {
			t.Error(err)
		}
	}
}

// A response too large for one message comes in fragments if the watch accepts them: the same events, and every message
// within the limit.
func TestFragments(t *testing.T) {
	const (
		requestBytes = 64 << 10
		overhead     = 512 << 10 // what etcd allows on top
		valueBytes   = 60 << 10
	)
	etcd, target := startBoth(t, "--max-request-bytes", fmt.Sprint(requestBytes))
	p := newPlayer(etcd, target)
	ctx := within(t)
	streams, err := openPair(t.Context(), etcd, target, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, fragment := range []bool{true, false} {
		if _, err := streams.create(ctx, &pb.WatchCreateRequest{
			Key: []byte("k"), RangeEnd: []byte("l"), PrevKv: true,
			Fragment: fragment,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		put := &pb.PutRequest{Key: fmt.Appendf(nil, "k%02d", i), Value: bytes.Repeat([]byte{byte(i)}, valueBytes)}
		if err := p.ask(ctx, putCall(put)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.ask(ctx, deleteCall(&pb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l")})); err != nil {
		t.Fatal(err)
	}
	if err := p.rest(ctx, streams); err != nil {
		t.Fatal(err)
	}
	// A watch from an old revision gets everything at once.
	if _, err := streams.create(ctx, &pb.WatchCreateRequest{
		Key: []byte("k"), RangeEnd: []byte("l"), StartRevision: 2,
		PrevKv: true, Fragment: true,
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.caughtUpAndRest(ctx, streams); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*recorder{"etcd": streams.etcd, "target": streams.target} {
		fragments := 0
		for _, got := range r.responses() {
			if got.Fragment {
				fragments++
			}
			if got.WatchId == 1 {
				continue // did not request fragments
			}
			if size := proto.Size(got); size > requestBytes+overhead {
				t.Errorf("%s: message of %d bytes on a watch with fragments", name, size)
			}
		}
		if fragments < 2 {
			t.Errorf("%s: %d fragments, want several", name, fragments)
		}
	}
}

// Periodic progress goes to the watches that requested it, under their own ids, with the current revision.
func TestPeriodicProgress(t *testing.T) {
	t.Parallel()
	etcd, target := startBoth(t, "--watch-progress-notify-interval", "200ms")
	ctx := within(t)
	for _, s := range []*side{etcd, target} {
		r, err := record(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, create := range []*pb.WatchCreateRequest{
			{Key: []byte("a"), WatchId: 1, ProgressNotify: true},
			{Key: []byte("a"), WatchId: 2},
			{Key: []byte("b"), WatchId: 3, ProgressNotify: true},
		} {
			if err := r.send(createRequest(create)); err != nil {
				t.Fatal(err)
			}
		}
		put := s.ask(ctx, putCall(&pb.PutRequest{Key: []byte("unwatched")}))
		if put.err != nil {
			t.Fatal(put)
		}
		progress := map[int64]int{}
		err = r.wait(ctx, "progress on watches 1 and 3", func(got []*pb.WatchResponse) bool {
			clear(progress)
			for _, g := range got {
				if !g.Created && len(g.Events) == 0 && g.Header.Revision == 2 {
					progress[g.WatchId]++
				}
			}
			return progress[1] >= 2 && progress[3] >= 2
		})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if len(progress) != 2 {
			t.Errorf("%s: progress by watch: %v, want it on 1 and 3 only", s.name, progress)
		}
	}
}
