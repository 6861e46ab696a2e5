package bitrot

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// answerTimeout is how long a request may take before it counts as failed.
	answerTimeout = 20 * time.Second
	concurrency   = 16
	pageSize      = 40
)

// answers counts the answers of one round.
type answers struct {
	mu                  sync.Mutex
	right, errors, late int
	wrong               []string
}

// wrongAnswer is the error for an answer that differs from the truth.
type wrongAnswer string

func (w wrongAnswer) Error() string { return string(w) }

func (a *answers) count(what string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wrong, ok := err.(wrongAnswer) //nolint:errorlint // never wrapped
	switch {
	case ok:
		a.wrong = append(a.wrong, what+": "+string(wrong))
	case err == nil:
		a.right++
	case status.Code(err) == codes.DeadlineExceeded:
		a.late++
		a.errors++
	default:
		a.errors++
	}
}

// readAll reads everything from a server and judges its answers.
func readAll(ctx context.Context, c *clientv3.Client, tr *truth, rng *rand.Rand) *answers {
	a := &answers{}
	kv, watch := etcdserverpb.NewKVClient(c.ActiveConnection()), etcdserverpb.NewWatchClient(c.ActiveConnection())
	r := &reader{kv: kv, watch: watch, truth: tr}
	var wg sync.WaitGroup
	turns := make(chan struct{}, concurrency)
	ask := func(what string, f func(context.Context) error) {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			limited, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			a.count(what, f(limited))
		})
	}
	revisions := []int64{0}
	for range 3 {
		revisions = append(revisions, tr.compacted+rng.Int64N(tr.revision-tr.compacted))
	}
	for i, rev := range revisions {
		for _, span := range [][2]string{{prefix, "/registry0"}, {prefix + "pods/", prefix + "pods0"}} {
			name := fmt.Sprintf("%s at %d", span[0], rev)
			ask("list "+name, func(ctx context.Context) error { return r.list(ctx, span, rev, 0, false) })
			ask("pages "+name, func(ctx context.Context) error { return r.list(ctx, span, rev, pageSize, false) })
			ask("keys "+name, func(ctx context.Context) error { return r.list(ctx, span, rev, 0, true) })
			ask("count "+name, func(ctx context.Context) error { return r.count(ctx, span, rev) })
			if i > 0 {
				ask("watch "+name, func(ctx context.Context) error { return r.follow(ctx, span, rev+1) })
			}
		}
	}
	for _, key := range append(tr.keys(), prefix+"nothing") {
		ask("get "+key[:min(len(key), 60)], func(ctx context.Context) error {
			return r.list(ctx, [2]string{key, key + "\x00"}, 0, 0, false)
		})
	}
	for range 20 {
		key, rev := string(tr.events[rng.IntN(len(tr.events))].Kv.Key), revisions[1+rng.IntN(3)]
		ask(fmt.Sprint("get ", key[:min(len(key), 60)], " at ", rev), func(ctx context.Context) error {
			return r.list(ctx, [2]string{key, key + "\x00"}, rev, 0, false)
		})
	}
	wg.Wait()
	return a
}

// reader compares the answers of a server with the truth.
type reader struct {
	kv    etcdserverpb.KVClient
	watch etcdserverpb.WatchClient
	truth *truth
}

func (r *reader) at(revision int64, span [2]string) []*mvccpb.KeyValue {
	if revision == 0 {
		revision = r.truth.revision
	}
	return r.truth.at(revision, span[0], span[1])
}

// list reads a range, in pages if limit is not 0.
func (r *reader) list(ctx context.Context, span [2]string, revision, limit int64, keysOnly bool) error {
	want := r.at(revision, span)
	from := span[0]
	for {
		req := &etcdserverpb.RangeRequest{
			Key: []byte(from), RangeEnd: []byte(span[1]), Revision: revision, Limit: limit, KeysOnly: keysOnly,
		}
		if span[1] == span[0]+"\x00" {
			req.RangeEnd = nil
		}
		res, err := r.kv.Range(ctx, req)
		if err != nil {
			return err
		}
		if err := r.header(res.Header, res.Count, len(want)); err != nil {
			return err
		}
		n := len(want)
		if limit > 0 {
			n = min(n, int(limit))
		}
		if len(res.Kvs) != n || res.More != (n < len(want)) {
			return wrongAnswer(fmt.Sprintf("%d rows, more=%t; want %d of %d", len(res.Kvs), res.More, n, len(want)))
		}
		for i, got := range res.Kvs {
			if err := same(got, want[i], keysOnly); err != nil {
				return err
			}
		}
		if want = want[n:]; len(want) == 0 {
			return nil
		}
		from, revision = string(res.Kvs[n-1].Key)+"\x00", res.Header.Revision
		if req.Revision != 0 {
			revision = req.Revision
		}
	}
}

func (r *reader) count(ctx context.Context, span [2]string, revision int64) error {
	res, err := r.kv.Range(ctx, &etcdserverpb.RangeRequest{
		Key: []byte(span[0]), RangeEnd: []byte(span[1]), Revision: revision, CountOnly: true,
	})
	if err != nil {
		return err
	}
	return r.header(res.Header, res.Count, len(r.at(revision, span)))
}

func (r *reader) header(h *etcdserverpb.ResponseHeader, count int64, want int) error {
	if h.Revision != r.truth.revision {
		return wrongAnswer(fmt.Sprintf("revision %d, want %d", h.Revision, r.truth.revision))
	}
	if count != int64(want) {
		return wrongAnswer(fmt.Sprintf("count %d, want %d", count, want))
	}
	return nil
}

// follow watches a range from a revision until the current one.
func (r *reader) follow(ctx context.Context, span [2]string, from int64) error {
	want := r.truth.since(from, span[0], span[1])
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.watch.Watch(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
		CreateRequest: &etcdserverpb.WatchCreateRequest{
			Key: []byte(span[0]), RangeEnd: []byte(span[1]), StartRevision: from, PrevKv: true, ProgressNotify: true,
		},
	}})
	if err != nil {
		return err
	}
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		if res.Canceled {
			return fmt.Errorf("canceled: %s", res.CancelReason)
		}
		for _, ev := range res.Events {
			if len(want) == 0 {
				return wrongAnswer(fmt.Sprintf("unexpected event of revision %d", ev.Kv.ModRevision))
			}
			if err := sameEvent(ev, want[0]); err != nil {
				return err
			}
			want = want[1:]
		}
		if !res.Created && len(res.Events) == 0 && res.Header.Revision >= r.truth.revision { // progress
			if len(want) > 0 {
				return wrongAnswer(fmt.Sprintf("event of revision %d is missing", want[0].Kv.ModRevision))
			}
			return nil
		}
	}
}

func sameEvent(got, want *mvccpb.Event) error {
	if got.Type != want.Type {
		return wrongAnswer(fmt.Sprintf("%v at %d, want %v at %d", got.Type, got.Kv.ModRevision, want.Type,
			want.Kv.ModRevision))
	}
	if err := same(got.Kv, want.Kv, false); err != nil {
		return err
	}
	if (got.PrevKv == nil) != (want.PrevKv == nil) {
		return wrongAnswer(fmt.Sprintf("event of revision %d has a previous version: %t, want %t", got.Kv.ModRevision,
			got.PrevKv != nil, want.PrevKv != nil))
	}
	if got.PrevKv == nil {
		return nil
	}
	return same(got.PrevKv, want.PrevKv, false)
}

func same(got, want *mvccpb.KeyValue, keysOnly bool) error {
	if bytes.Equal(got.Key, want.Key) && got.ModRevision == want.ModRevision &&
		got.CreateRevision == want.CreateRevision && got.Version == want.Version &&
		(keysOnly || got.Lease == want.Lease && bytes.Equal(got.Value, want.Value)) {
		return nil
	}
	return wrongAnswer(fmt.Sprintf("key %.60q, revision %d, created %d, version %d, lease %d, %d bytes; want %.60q, "+
		"%d, %d, %d, %d, %d", got.Key, got.ModRevision, got.CreateRevision, got.Version, got.Lease, len(got.Value),
		want.Key, want.ModRevision, want.CreateRevision, want.Version, want.Lease, len(want.Value)))
}
