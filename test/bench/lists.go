package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (c *config) listPhases() []*phase {
	return []*phase{
		{name: "page", run: func(ctx context.Context, t *target) (*outcome, error) {
			return report(load{clients: c.listClients, span: c.span}.run(ctx, t.pager()))
		}},
		{name: "page-first", run: func(ctx context.Context, t *target) (*outcome, error) {
			return t.firstPages(ctx, c.span)
		}},
		{name: "list", run: func(ctx context.Context, t *target) (*outcome, error) {
			return report(load{clients: 1, span: c.span}.run(ctx, t.lister()))
		}},
		{
			name: "stream", skip: func(t *target) bool { return t.noStream },
			run: func(ctx context.Context, t *target) (*outcome, error) {
				return report(load{clients: 1, span: c.span}.run(ctx, t.streamer()))
			},
		},
		{
			name: "hash", skip: func(t *target) bool { return t.canned || t.noStream }, // kine has neither
			run: func(ctx context.Context, t *target) (*outcome, error) {
				return report(load{clients: 1, span: c.span}.run(ctx, t.hasher()))
			},
		},
	}
}

// expect returns a check of the objects from number first on, in order.
func (t *target) expect(first *int, last *[]byte) func(int, *kv) error {
	return func(i int, k *kv) error {
		if len(k.value) != t.c.value {
			return t.wrong("a listed value has %d bytes", len(k.value))
		}
		if t.canned {
			return nil
		}
		if i += *first; i >= len(t.objects) {
			return t.wrong("a list has more objects than the store")
		}
		o := &t.objects[i]
		if !bytes.Equal(k.key, o.key) || k.mod != o.mod || k.stamp() != uint64(i) {
			return t.wrong("listed %s at %d, value %d; should be %s at %d, value %d", k.key, k.mod, k.stamp(),
				o.key, o.mod, i)
		}
		if last != nil {
			*last = o.key
		}
		return nil
	}
}

// walk reads the objects page by page, at the first page's revision.
type walk struct {
	t    *target
	req  pb.RangeRequest
	res  rangeReply
	at   int // the number of the next object
	page int
	// pages is the number of pages before it starts over.
	pages int
	last  []byte
}

func (t *target) newWalk() *walk {
	w := &walk{t: t, pages: t.c.pagesInWalk()}
	w.res.check = t.expect(&w.at, &w.last)
	w.again()
	return w
}

func (w *walk) again() {
	w.at, w.page = 0, 0
	w.req = pb.RangeRequest{Key: []byte(objectsDir), RangeEnd: objectsEnd, Limit: pageSize}
}

func (w *walk) next(ctx context.Context, n int) error {
	w.res.reset()
	if err := w.t.conns[n%len(w.t.conns)].Invoke(ctx, pb.KV_Range_FullMethodName, &w.req, &w.res); err != nil {
		return err
	}
	left := len(w.t.objects) - w.at
	if w.t.canned {
		w.last = w.t.objects[w.at].key
	} else if w.res.n != min(left, pageSize) || w.res.count != int64(left) || w.res.more != (left > pageSize) {
		return w.t.wrong("page at object %d: %d objects, count %d, more %v", w.at, w.res.n, w.res.count, w.res.more)
	}
	if w.page == 0 {
		w.req.Revision = w.res.revision
	}
	w.at += pageSize
	w.page++
	w.req.Key = append(append([]byte(nil), w.last...), 0)
	if w.page == w.pages {
		w.again()
	}
	return nil
}

// pager walks the list; an operation is a page.
func (t *target) pager() step {
	walks := make([]*walk, t.c.listClients)
	for i := range walks {
		walks[i] = t.newWalk()
	}
	return func(ctx context.Context, n int) (bool, error) { return true, walks[n].next(ctx, n) }
}

// firstPages reads only first pages, each after an update inside the list, so that no answer from an earlier revision
// can be reused, and counts only the pages' CPU.
func (t *target) firstPages(ctx context.Context, span time.Duration) (*outcome, error) {
	out, u := &outcome{}, t.newUpdates()
	for end := time.Now().Add(span); time.Now().Before(end); {
		if _, err := u.one(ctx, rand.IntN(min(t.c.clients, len(t.objects)))); err != nil {
			return nil, err
		}
		w := t.newWalk()
		before, err := t.used()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if err := w.next(ctx, 0); err != nil {
			return nil, err
		}
		took := time.Since(start)
		after, err := t.used()
		if err != nil {
			return nil, err
		}
		out.ops++
		out.wall += took
		out.latency = append(out.latency, took)
		out.used = out.used.plus(after.since(before))
	}
	return out, nil
}

// lister reads the whole list in one answer.
func (t *target) lister() step {
	first := 0
	res := rangeReply{check: t.expect(&first, nil)}
	req := pb.RangeRequest{Key: []byte(objectsDir), RangeEnd: objectsEnd}
	return func(ctx context.Context, n int) (bool, error) {
		res.reset()
		if err := t.conns[n%len(t.conns)].Invoke(ctx, pb.KV_Range_FullMethodName, &req, &res); err != nil {
			return false, err
		}
		if res.n != len(t.objects) || res.count != int64(res.n) || res.more {
			return false, t.wrong("full list: %d objects, count %d, more %v", res.n, res.count, res.more)
		}
		return true, nil
	}
}

// streamer reads the whole list in chunks.
func (t *target) streamer() step {
	req := &pb.RangeRequest{Key: []byte(objectsDir), RangeEnd: objectsEnd}
	return func(ctx context.Context, n int) (bool, error) {
		first := 0
		var res streamReply
		res.check = t.expect(&first, nil)
		s, err := t.conns[n%len(t.conns)].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
			pb.KV_RangeStream_FullMethodName)
		if err != nil {
			return false, err
		}
		if err := errors.Join(s.SendMsg(req), s.CloseSend()); err != nil {
			return false, err
		}
		for err == nil {
			err = s.RecvMsg(&res)
		}
		if !errors.Is(err, io.EOF) {
			return false, err
		}
		if res.n != len(t.objects) || res.count != int64(res.n) || res.more || res.revision == 0 {
			return false, t.wrong("streamed list: %d objects, count %d, more %v, revision %d", res.n, res.count,
				res.more, res.revision)
		}
		return true, nil
	}
}

// hasher hashes the whole history that is not compacted.
func (t *target) hasher() step {
	return func(ctx context.Context, n int) (bool, error) {
		res, err := pb.NewMaintenanceClient(t.conns[n%len(t.conns)]).HashKV(ctx, &pb.HashKVRequest{})
		if err == nil && (res.Hash == 0 || res.HashRevision < int64(len(t.objects)/putsInTxn)) {
			err = t.wrong("hash %d at revision %d", res.Hash, res.HashRevision)
		}
		return err == nil, err
	}
}

// probeStream checks whether the server supports RangeStream.
func (t *target) probeStream(ctx context.Context) error {
	s, err := t.kv(0).RangeStream(ctx, &pb.RangeRequest{Key: objectKey(0)})
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) == codes.Unimplemented {
		t.noStream = true
		return nil
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
