package etcdshim

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A reply's bytes count until gRPC has sent them or its client disconnects.
func TestRepliesCountUntilSent(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	const size = 3 << 20
	message, err := s.codec.CodecV2.Marshal(wrapperspb.Bytes(make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	raw := message.Materialize()
	made := make(chan *store.Account, 1)
	g := grpc.NewServer(grpc.ForceServerCodecV2(newCodec()))
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: func(_ any, ctx context.Context, decode func(any) error,
			_ grpc.UnaryServerInterceptor,
		) (any, error) {
			if err := decode(&emptypb.Empty{}); err != nil {
				return nil, err
			}
			permit, err := s.store.AcquirePermit(ctx, store.DefaultResultBytes)
			if err != nil {
				return nil, err
			}
			defer permit.End()
			account := permit.Charge(ctx, int64(len(raw)))
			made <- account
			var pieces mem.BufferSlice
			for at := 0; at < len(raw); at += 1000 {
				pieces = append(pieces, mem.SliceBuffer(raw[at:min(at+1000, len(raw))]))
			}
			return encoded{countSent(pieces, account)}, nil
		}}},
	}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	released := func(what string, k *store.Account) {
		t.Helper()
		for began := time.Now(); k.Bytes() != 0; runtime.GC() {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s: %d bytes still count", what, k.Bytes())
			}
		}
	}
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(1<<16),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2*size)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	var got wrapperspb.BytesValue
	if err := conn.Invoke(t.Context(), "/test/Get", &emptypb.Empty{}, &got); err != nil || len(got.Value) != size {
		t.Fatalf("%d bytes, %v", len(got.Value), err)
	}
	released("read", <-made)
	// A stream whose client does not read: its window is full before the reply is sent.
	begin := func(ctx context.Context, conn *grpc.ClientConn) *store.Account {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test/Get")
		if err == nil {
			err = stream.SendMsg(&emptypb.Empty{})
		}
		if err == nil {
			err = stream.CloseSend()
		}
		if err != nil {
			t.Fatal(err)
		}
		k := <-made
		if _, err := stream.Header(); err != nil {
			t.Fatal(err)
		}
		if k.Bytes() == 0 {
			t.Error("an unread reply does not count")
		}
		return k
	}
	ctx, leave := context.WithCancel(t.Context())
	k := begin(ctx, conn)
	leave()
	released("reset", k)
	// While it is idle, a connection refers to pooled buffers of its last reply, which the next reply may use: until it
	// sends again or ends, a broken connection's reply could go on counting.
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	broken := dial()
	k = begin(t.Context(), broken)
	_ = broken.Close()
	released("cut off", k)
}

// What has been sent of a reply is not held until all of it has been.
func TestSentPartsAreForgotten(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	const parts = 8
	var forgotten atomic.Int64
	reply := func() (pieces mem.BufferSlice) {
		for range parts {
			piece := new([countedBytes]byte)
			runtime.AddCleanup(piece, func(*atomic.Int64) { forgotten.Add(1) }, &forgotten)
			pieces = append(pieces, mem.SliceBuffer(piece[:]))
		}
		return pieces
	}
	data := countSent(reply(), s.store.Charge(t.Context(), parts*countedBytes))
	reader := data.Reader() // as gRPC's transport
	data.Free()
	if n, err := io.ReadFull(reader, make([]byte, parts/2*countedBytes+1)); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for began := time.Now(); forgotten.Load() < parts/2-1; runtime.GC() {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d of %d parts are forgotten", forgotten.Load(), parts/2)
		}
	}
	if n := reader.Remaining(); n != parts/2*countedBytes-1 {
		t.Errorf("%d bytes remain", n)
	}
	runtime.KeepAlive(data)
}
