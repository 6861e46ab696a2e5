package sidebyside

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// A comparison that cannot fail proves nothing: here the target is an etcd with one answer altered in transit, and the
// test must notice every such change.
func TestNoticesDifferences(t *testing.T) {
	for name, change := range map[string]func(reply any, err error) (changed bool, _ error){
		"a header one revision ahead": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.PutResponse)
			if ok && err == nil {
				a.Header.Revision++
			}
			return ok && err == nil, err
		},
		"a key missing from a range": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.RangeResponse)
			if !ok || err != nil || len(a.Kvs) < 2 {
				return false, err
			}
			a.Kvs = a.Kvs[1:]
			return true, nil
		},
		"a count of the limited instead of all": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.RangeResponse)
			if !ok || err != nil || !a.More || a.Count == int64(len(a.Kvs)) {
				return false, err
			}
			a.Count = int64(len(a.Kvs))
			return true, nil
		},
		"a version inside a nested transaction": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.TxnResponse)
			return ok && err == nil && changeNested(a), err
		},
		"another message of the same code": func(_ any, err error) (bool, error) {
			if status.Code(err) != codes.OutOfRange {
				return false, err
			}
			return true, status.Error(codes.OutOfRange, "etcdserver: mvcc: required revision is gone")
		},
		"success instead of an error": func(reply any, err error) (bool, error) {
			_, ok := reply.(*pb.TxnResponse)
			return ok && err != nil, nil
		},
		"a watch event that is lost": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.WatchResponse)
			if !ok || len(a.Events) == 0 || string(a.Events[0].Kv.Key) == sentinelKey {
				return false, err
			}
			a.Events = a.Events[1:]
			return true, err
		},
		"a delete event with a value": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.WatchResponse)
			if !ok || len(a.Events) == 0 || a.Events[0].Type != mvccpb.Event_DELETE {
				return false, err
			}
			a.Events[0].Kv.Value = []byte("old")
			return true, err
		},
		"a watch's header that is not the current revision": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.WatchResponse)
			if !ok || len(a.Events) == 0 || a.Header.Revision == a.Events[len(a.Events)-1].Kv.ModRevision {
				return false, err
			}
			a.Header.Revision--
			return true, err
		},
		"a progress answer ahead of events": func(reply any, err error) (bool, error) {
			a, ok := reply.(*pb.WatchResponse)
			if !ok || len(a.Events) > 0 || a.WatchId != noWatch {
				return false, err
			}
			a.Header.Revision += 10
			return true, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, changed := playerWithChange(t, change)
			// Only a lost progress answer or event takes a wait to notice.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n, err := p.play(ctx, fixedSeed, firstSteps(1000))
			if !changed.Load() {
				t.Fatalf("nothing was changed in %d steps", n)
			}
			if !errors.Is(err, errDiffer) {
				t.Errorf("after %d steps: %v, want a difference", n, err)
			}
		})
	}
}

func changeNested(a *pb.TxnResponse) bool {
	return slices.ContainsFunc(a.Responses, func(op *pb.ResponseOp) bool {
		return slices.ContainsFunc(op.GetResponseTxn().GetResponses(), func(op *pb.ResponseOp) bool {
			r := op.GetResponseRange()
			if len(r.GetKvs()) == 0 {
				return false
			}
			r.Kvs[0].Version++
			return true
		})
	})
}

// playerWithChange plays etcd against another etcd whose answers pass through change until it has altered one.
func playerWithChange(t *testing.T, change func(any, error) (bool, error)) (*player, *atomic.Bool) {
	var changed atomic.Bool
	once := func(reply any, err error) error {
		if changed.Load() {
			return err
		}
		did, err := change(reply, err)
		if did {
			changed.Store(true)
		}
		return err
	}
	unary := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		return once(reply, invoke(ctx, method, req, reply, conn, opts...))
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, opts...)
		return changedStream{s, once}, err
	}
	args := []string{"--max-txn-ops", "8", "--unsafe-no-fsync"}
	etcd, target := servers.Etcd(t, args...), servers.Etcd(t, args...)
	return newPlayer(
		dial(t, "etcd", etcd.Endpoint()),
		dial(t, "target", target.Endpoint(), grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)),
	), &changed
}

type changedStream struct {
	grpc.ClientStream
	once func(any, error) error
}

func (s changedStream) RecvMsg(m any) error { return s.once(m, s.ClientStream.RecvMsg(m)) }

func firstSteps(n int) []int {
	steps := make([]int, n)
	for i := range steps {
		steps[i] = i
	}
	return steps
}

func TestShrink(t *testing.T) {
	fails := func(steps []int) bool { return slices.Contains(steps, 17) && slices.Contains(steps, 71) }
	got := shrink(firstSteps(100), time.Now().Add(time.Minute), fails)
	if !slices.Equal(got, []int{17, 71}) {
		t.Errorf("shrunk to %v, want the two steps that matter", got)
	}
}

// Rules that each server's responses must keep on their own.
func TestHistoryRules(t *testing.T) {
	event := func(rev int64) *mvccpb.Event { return &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: rev}} }
	header := func(rev int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: rev} }
	created := &pb.WatchResponse{Created: true, Header: header(5)}
	sent := func(rev int64, fragment bool, events ...*mvccpb.Event) *pb.WatchResponse {
		return &pb.WatchResponse{Header: header(rev), Fragment: fragment, Events: events}
	}
	progress := &pb.WatchResponse{WatchId: noWatch, Header: header(9)}
	canceled := &pb.WatchResponse{Canceled: true}
	for name, c := range map[string]struct {
		responses []*pb.WatchResponse
		broken    int
	}{
		"in order": {[]*pb.WatchResponse{created, sent(6, false, event(6)), sent(9, false, event(7),
			event(9))}, 0},
		"before the start":       {[]*pb.WatchResponse{created, sent(6, false, event(5))}, 1},
		"behind progress":        {[]*pb.WatchResponse{created, progress, sent(9, false, event(9))}, 1},
		"out of order":           {[]*pb.WatchResponse{created, sent(9, false, event(8), event(7))}, 1},
		"above the header":       {[]*pb.WatchResponse{created, sent(6, false, event(7))}, 1},
		"split revision":         {[]*pb.WatchResponse{created, sent(6, false, event(6)), sent(6, false, event(6))}, 1},
		"fragments":              {[]*pb.WatchResponse{created, sent(6, true, event(6)), sent(6, false, event(6))}, 0},
		"after the end":          {[]*pb.WatchResponse{created, canceled, sent(6, false, event(6))}, 1},
		"before the beginning":   {[]*pb.WatchResponse{sent(6, false, event(6)), created}, 1},
		"created out of nothing": {[]*pb.WatchResponse{created, created}, 1},
	} {
		h := read([]*pb.WatchCreateRequest{{Fragment: true}}, c.responses, 100)
		if len(h.broken) != c.broken {
			t.Errorf("%s: %d rules broken, want %d: %v", name, len(h.broken), c.broken, h.broken)
		}
	}
}
