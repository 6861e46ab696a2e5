package main

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// streamChunk is how many objects the bare server puts into one message of a RangeStream, about as many as etcd.
const streamChunk = 1000

// bare answers etcd's calls with prepared replies: it costs what a server costs that stores nothing. It counts
// revisions and passes updates to its watchers, so that the client can check it like any other.
type bare struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	objects int
	one     *mvccpb.KeyValue
	get     *pb.RangeResponse
	page    *pb.RangeResponse
	list    func() *pb.RangeResponse
	stream  []*pb.RangeStreamResponse

	mu       sync.Mutex
	revision int64
	watchers map[chan *pb.WatchResponse]struct{}
}

func serveBare(addr string, objects, value int) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer(
		grpc.MaxConcurrentStreams(1<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}))
	b := newBare(objects, value)
	pb.RegisterKVServer(s, b)
	pb.RegisterWatchServer(s, b)
	return s.Serve(l)
}

func newBare(objects, value int) *bare {
	// A key of the usual length and numbers of the usual size.
	one := &mvccpb.KeyValue{
		Key: objectKey(1), Value: bytes.Repeat([]byte{0xa5}, value),
		CreateRevision: 20000, ModRevision: 20000, Version: 3,
	}
	b := &bare{objects: objects, one: one, revision: 20000, watchers: map[chan *pb.WatchResponse]struct{}{}}
	b.get = b.reply(1, false, 1)
	b.page = b.reply(pageSize, true, int64(objects))
	b.list = sync.OnceValue(func() *pb.RangeResponse { return b.reply(objects, false, int64(objects)) })
	chunk := b.reply(streamChunk, false, 0).Kvs
	for left := objects; left > 0; left -= streamChunk {
		r := &pb.RangeResponse{Kvs: chunk[:min(left, streamChunk)]}
		if left <= streamChunk {
			r.Header, r.Count = b.header(b.revision), int64(objects)
		}
		b.stream = append(b.stream, &pb.RangeStreamResponse{RangeResponse: r})
	}
	return b
}

func (b *bare) header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1 << 63, MemberId: 1 << 63, Revision: rev, RaftTerm: 2}
}

func (b *bare) reply(n int, more bool, count int64) *pb.RangeResponse {
	r := &pb.RangeResponse{Header: b.header(b.revision), More: more, Count: count}
	for range n {
		r.Kvs = append(r.Kvs, b.one)
	}
	return r
}

// Range answers a get, a page or a full list.
func (b *bare) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	switch {
	case len(r.RangeEnd) == 0:
		return b.get, nil
	case r.Limit > 0:
		return b.page, nil
	default:
		return b.list(), nil
	}
}

// RangeStream sends all objects in chunks.
func (b *bare) RangeStream(_ *pb.RangeRequest, s grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	for _, m := range b.stream {
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// Txn takes the success branch and notifies the watchers.
func (b *bare) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	op := r.Success[0]
	b.mu.Lock()
	b.revision++
	rev := b.revision
	if put := op.GetRequestPut(); put != nil && len(b.watchers) > 0 {
		ev := &mvccpb.Event{
			Kv: &mvccpb.KeyValue{
				Key: put.Key, Value: put.Value, CreateRevision: 20000, ModRevision: rev,
				Version: 3,
			},
			PrevKv: b.one,
		}
		m := &pb.WatchResponse{Header: b.header(rev), Events: []*mvccpb.Event{ev}}
		for w := range b.watchers {
			w <- m
		}
	}
	b.mu.Unlock()
	res := &pb.TxnResponse{Header: b.header(rev), Succeeded: true}
	inner := &pb.ResponseHeader{Revision: rev}
	if op.GetRequestPut() != nil {
		res.Responses = []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: inner}}},
		}
	} else {
		res.Responses = []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseDeleteRange{
			ResponseDeleteRange: &pb.DeleteRangeResponse{Header: inner, Deleted: 1},
		}}}
	}
	return res, nil
}

// Compact has nothing to do.
func (b *bare) Compact(context.Context, *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return &pb.CompactionResponse{Header: b.header(b.revision)}, nil
}

// Watch sends every put from now on.
func (b *bare) Watch(s grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	ch := make(chan *pb.WatchResponse, 1024)
	b.mu.Lock()
	b.watchers[ch] = struct{}{}
	rev := b.revision
	b.mu.Unlock()
	defer b.leave(ch)
	if err := s.Send(&pb.WatchResponse{Header: b.header(rev), Created: true}); err != nil {
		return err
	}
	for {
		select {
		case m := <-ch:
			if err := s.Send(m); err != nil {
				return err
			}
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

func (b *bare) leave(ch chan *pb.WatchResponse) {
	go func() { // a Txn may be waiting to send
		for range ch {
		}
	}()
	b.mu.Lock()
	delete(b.watchers, ch)
	b.mu.Unlock()
	close(ch)
}
