package etcdshim

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

type watching struct {
	t *testing.T
	pb.Watch_WatchClient
}

func (s *served) watchStream(t *testing.T) watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	w, err := s.watch.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return watching{t, w}
}

func (w watching) create(r *pb.WatchCreateRequest) {
	w.t.Helper()
	if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w watching) next() *pb.WatchResponse {
	w.t.Helper()
	r, err := w.Recv()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestWatch(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	w := s.watchStream(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a"), PrevKv: true})
	if r := w.next(); !r.Created || r.WatchId != 0 || r.Header.Revision != 1 || len(r.Events) != 0 {
		t.Fatalf("created: %v", r)
	}
	s.put(t, "a", "1")
	if r := w.next(); len(r.Events) != 1 || string(r.Events[0].Kv.Value) != "1" || r.Events[0].PrevKv != nil ||
		r.Header.Revision != 2 {
		t.Errorf("put: %v", r)
	}
	s.put(t, "a", "2")
	if r := w.next(); len(r.Events) != 1 || string(r.Events[0].PrevKv.GetValue()) != "1" {
		t.Errorf("put again: %v", r)
	}
	if _, err := s.kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	r := w.next()
	if len(r.Events) != 1 || r.Events[0].Type.String() != "DELETE" || r.Events[0].Kv.ModRevision != 4 ||
		string(r.Events[0].PrevKv.GetValue()) != "2" {
		t.Errorf("delete: %v", r)
	}
	for name, c := range map[string]struct {
		req    *pb.WatchCreateRequest
		reason string
	}{
		"empty range": {
			&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")},
			"mvcc: watcher range is empty",
		},
		"id in use": {
			&pb.WatchCreateRequest{Key: []byte("b"), WatchId: 7},
			"mvcc: duplicate watch ID provided on the WatchStream",
		},
		"negative start": {
			&pb.WatchCreateRequest{Key: []byte("b"), StartRevision: -1},
			"etcdserver: mvcc: required revision has been compacted",
		},
	} {
		if name == "id in use" {
			w.create(c.req)
			if r := w.next(); !r.Created || r.Canceled || r.WatchId != 7 {
				t.Fatalf("watch 7: %v", r)
			}
		}
		w.create(c.req)
		if r := w.next(); !r.Created || !r.Canceled || r.WatchId != -1 || r.CancelReason != c.reason {
			t.Errorf("%s: %v", name, r)
		}
	}
	if err := w.CloseSend(); err != nil {
		t.Fatal(err)
	}
	s.put(t, "a", "3") // half-closing the stream leaves its watches running
	if r := w.next(); len(r.Events) != 1 {
		t.Errorf("after half-close: %v", r)
	}
}

func TestWatchSplitsLargeResponsesWhereAsked(t *testing.T) {
	s := serve(t, Options{MaxRequestBytes: 1000}, store.Config{})
	limit := 1000 + messageOverhead
	value := bytes.Repeat([]byte("v"), 900)
	rev := int64(0)
	for i := range 1500 { // one deletion of all of them is one revision
		rev = s.put(t, fmt.Sprintf("k%04d", i), string(value))
	}
	if _, err := s.kv.DeleteRange(t.Context(), &pb.DeleteRangeRequest{
		Key:      []byte("k"),
		RangeEnd: []byte("l"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, fragment := range []bool{true, false} {
		w := s.watchStream(t)
		w.create(&pb.WatchCreateRequest{
			Key: []byte("k"), RangeEnd: []byte("l"), StartRevision: rev + 1, PrevKv: true,
			Fragment: fragment,
		})
		w.next()
		events, parts := 0, 0
		for {
			r := w.next()
			parts++
			for _, e := range r.Events {
				if want := fmt.Sprintf("k%04d", events); string(e.Kv.Key) != want {
					t.Fatalf("event of %q, want %q", e.Kv.Key, want)
				}
				events++
			}
			if !r.Fragment {
				break
			}
		}
		wantParts := 1
		if fragment {
			wantParts = 1500*len(value)/limit + 1
		}
		if events != 1500 || parts != wantParts {
			t.Errorf("fragment %v: %d events in %d parts, want %d", fragment, events, parts, wantParts)
		}
	}
}

func TestFragments(t *testing.T) {
	event := func(n int) store.Event { return store.Event{Row: &store.Row{Key: bytes.Repeat([]byte("k"), n)}} }
	for _, c := range []struct {
		sizes []int
		limit int
		want  []int // events in each part
	}{
		{[]int{10, 10, 10}, 1000, []int{3}},
		{[]int{10, 10, 10}, 1, []int{1, 1, 1}},
		{[]int{100, 100, 100, 100}, 250, []int{2, 2}},
		{[]int{500, 10, 10}, 100, []int{1, 2}},
		{[]int{10, 500, 10}, 100, []int{1, 1, 1}},
	} {
		w := watchReply{id: innerHeader, watch: 5}
		for _, n := range c.sizes {
			w.events = append(w.events, event(n))
		}
		var got []int
		err := fragments(w, c.limit, func(part *watchReply) error {
			if part.watch != 5 || part.size() >= c.limit && len(part.events) > 1 {
				t.Errorf("part %+v of %d bytes, limit %d", part, part.size(), c.limit)
			}
			got = append(got, len(part.events))
			if last := sum(got) == len(c.sizes); part.fragment == last {
				t.Errorf("part %d has fragment %v", len(got), part.fragment)
			}
			return nil
		})
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v by %d: parts of %v events, %v; want %v", c.sizes, c.limit, got, err, c.want)
		}
	}
}

func sum(l []int) (n int) {
	for _, v := range l {
		n += v
	}
	return n
}

func TestWatchEnds(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.watch.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("cancelled by the client: %v", err)
	}
	// A server that stops does not wait for its watches.
	open := s.watchStream(t)
	open.create(&pb.WatchCreateRequest{Key: []byte("a")})
	open.next()
	keep, err := s.lease.LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := keep.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if r, err := keep.Recv(); err != nil || r.TTL != 0 {
		t.Fatalf("keep-alive of an unknown lease: %v, %v", r, err)
	}
	s.Shutdown(t.Context())
	if _, err := open.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("watch on a server that stops: %v", err)
	}
	if _, err := keep.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("keep-alive on a server that stops: %v", err)
	}
}
