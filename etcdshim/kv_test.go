package etcdshim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// The requests that Kubernetes makes during an object's life.
func TestObjectsLife(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx, key := t.Context(), []byte("/registry/pods/a")
	guarded := func(mod int64, op *pb.RequestOp) *pb.TxnResponse {
		t.Helper()
		r, err := s.kv.Txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{
				ModRevision: mod,
			}}},
			Success: []*pb.RequestOp{op},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	write := func(v string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte(v)}}}
	}
	if r := guarded(0, write("one")); !r.Succeeded || r.Header.Revision != 2 ||
		r.Responses[0].GetResponsePut().Header.Revision != 2 {
		t.Errorf("create: %v", r)
	}
	r := guarded(0, write("again"))
	if kv := r.Responses[0].GetResponseRange().Kvs; r.Succeeded || len(kv) != 1 || string(kv[0].Value) != "one" ||
		kv[0].ModRevision != 2 {
		t.Errorf("create of an existing key: %v", r)
	}
	if r := guarded(2, write("two")); !r.Succeeded || r.Header.Revision != 3 {
		t.Errorf("update: %v", r)
	}
	got, err := s.kv.Range(ctx, &pb.RangeRequest{Key: key})
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].Version != 2 || got.Kvs[0].CreateRevision != 2 ||
		string(got.Kvs[0].Value) != "two" {
		t.Errorf("get: %v, %v", got, err)
	}
	if got.Header.ClusterId == 0 || got.Header.MemberId == 0 || got.Header.RaftTerm == 0 || got.Header.Revision != 3 {
		t.Errorf("header %v", got.Header)
	}
	del := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
		Key:    key,
		PrevKv: true,
	}}}
	r = guarded(3, del)
	if d := r.Responses[0].GetResponseDeleteRange(); !r.Succeeded || d.Deleted != 1 ||
		string(d.PrevKvs[0].Value) != "two" {
		t.Errorf("delete: %v", r)
	}
	got, err = s.kv.Range(ctx, &pb.RangeRequest{Key: key})
	if err != nil || len(got.Kvs) != 0 || got.Count != 0 {
		t.Errorf("get of a deleted key: %v, %v", got, err)
	}
}

func TestRequestSize(t *testing.T) {
	s := serve(t, Options{MaxRequestBytes: 10_000}, store.Config{})
	ctx := t.Context()
	for _, c := range []struct {
		size int
		code codes.Code
		text string
	}{
		{9_900, codes.OK, ""},
		{10_000, codes.InvalidArgument, "etcdserver: request is too large"},
		{
			10_000 + messageOverhead, codes.ResourceExhausted,
			"grpc: received message larger than max (534295 vs. 534288)",
		},
	} {
		_, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, c.size)})
		if got := status.Convert(err); got.Code() != c.code || got.Message() != c.text {
			t.Errorf("value of %d bytes: %v", c.size, err)
		}
	}
	// Read-only transactions are not limited.
	big := &pb.TxnRequest{Compare: []*pb.Compare{{
		Key: []byte("k"), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: make([]byte, 20_000)},
	}}}
	if _, err := s.kv.Txn(ctx, big); err != nil {
		t.Errorf("large transaction that only reads: %v", err)
	}
}

func TestRangeStream(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx := t.Context()
	for i := range 300 {
		s.put(t, fmt.Sprintf("k%03d", i), "value")
	}
	for _, c := range []struct {
		req   *pb.RangeRequest
		rows  int
		count int64
		more  bool
	}{
		{&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}, 300, 300, false},
		{&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 120}, 120, 300, true},
		{&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), CountOnly: true}, 0, 300, false},
		{&pb.RangeRequest{Key: []byte("nothing")}, 0, 0, false},
	} {
		stream, err := s.kv.RangeStream(ctx, c.req)
		if err != nil {
			t.Fatal(err)
		}
		var rows, chunks int
		var last *pb.RangeResponse
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if last != nil && (last.Header != nil || last.Count != 0 || last.More) {
				t.Errorf("%v: chunk %d of many has a header: %v", c.req, chunks, last)
			}
			last = r.RangeResponse
			for _, kv := range last.Kvs {
				if want := fmt.Sprintf("k%03d", rows); string(kv.Key) != want {
					t.Fatalf("key %q, want %q", kv.Key, want)
				}
				rows++
			}
			chunks++
		}
		if rows != c.rows || last.Count != c.count || last.More != c.more || last.Header.GetRevision() != 301 {
			t.Errorf("%v: %d rows in %d chunks, finally %v", c.req, rows, chunks, last)
		}
		if c.rows > 100 && chunks < 3 {
			t.Errorf("%v: %d rows in %d chunks", c.req, rows, chunks)
		}
	}
}

// A page is encoded by hand from rows that many requests share.
func TestPageOfRows(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	value := string(bytes.Repeat([]byte("v"), 1000))
	for i := range 200 {
		s.put(t, fmt.Sprintf("k%03d", i), value)
	}
	for _, limit := range []int64{1, 50, 200, 0} {
		r, err := s.kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		want := limit
		if limit == 0 {
			want = 200
		}
		if int64(len(r.Kvs)) != want || r.Count != 200 || r.More != (want < 200) {
			t.Fatalf("limit %d: %d rows, count %d, more %v", limit, len(r.Kvs), r.Count, r.More)
		}
		for i, kv := range r.Kvs {
			if string(kv.Key) != fmt.Sprintf("k%03d", i) || string(kv.Value) != value || kv.ModRevision != int64(i+2) {
				t.Fatalf("row %d is %v", i, kv)
			}
		}
	}
}

// A stream waits while unread results leave no memory.
func TestRangeStreamWaitsForMemory(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	for i := range 100 {
		s.put(t, fmt.Sprintf("k%03d", i), "value")
	}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}
	read := func(ctx context.Context) (rows int, _ error) {
		stream, err := s.kv.RangeStream(ctx, all)
		if err != nil {
			return 0, err
		}
		for {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return rows, nil
			}
			if err != nil {
				return rows, err
			}
			rows += len(r.RangeResponse.Kvs)
		}
	}
	others := s.store.Charge(t.Context(), 1<<30)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if rows, err := read(ctx); rows != 0 || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("without memory: %d rows, %v", rows, err)
	}
	others.Release(1 << 30)
	if rows, err := read(t.Context()); rows != 100 || err != nil {
		t.Errorf("with memory: %d rows, %v", rows, err)
	}
}
