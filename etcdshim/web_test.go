package etcdshim

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A body is read ahead up to the window, and further as messages are consumed.
func TestMeteredBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetered(io.NopCloser(bytes.NewReader(make([]byte, 1000))), 100)
		var read atomic.Int64
		ended := make(chan error, 1)
		go func() {
			for p := make([]byte, 30); ; {
				n, err := m.Read(p)
				read.Add(int64(n))
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		for released := int64(0); released < 500; released += 50 {
			synctest.Wait()
			if n := read.Load(); n != 100+released {
				t.Fatalf("%d bytes read after %d were released", n, released)
			}
			m.release(50)
		}
		synctest.Wait()
		_ = m.Close()
		if err := <-ended; !errors.Is(err, errBodyClosed) {
			t.Errorf("reading ends with %v", err)
		}
	})
}

// A call over HTTP accepts messages of all permitted sizes, in any number.
func TestCallsOverHTTP(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	conn := s.overHTTP(t)
	kv := pb.NewKVClient(conn)
	for size, want := range map[int]codes.Code{
		0: codes.OK, 1 << 20: codes.OK, defaultMaxRequestBytes - 100: codes.OK,
		defaultMaxRequestBytes: codes.InvalidArgument, 4 << 20: codes.ResourceExhausted,
	} {
		if _, err := kv.Put(t.Context(), &pb.PutRequest{
			Key:   []byte("k"),
			Value: make([]byte, size),
		}); status.Code(err) != want {
			t.Errorf("a put of %d bytes: %v, want %v", size, err, want)
		}
	}
	keep, err := pb.NewLeaseClient(conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watch, err := pb.NewWatchClient(conn).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // of half a MiB each, five windows in all
		create := &pb.WatchCreateRequest{Key: make([]byte, 512<<10), WatchId: int64(i + 1)}
		if err := watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: create,
		}}); err != nil {
			t.Fatal(err)
		}
		if r, err := watch.Recv(); err != nil || r.WatchId != int64(i+1) {
			t.Fatal(r, err)
		}
		if err := keep.Send(&pb.LeaseKeepAliveRequest{ID: int64(i)}); err != nil {
			t.Fatal(err)
		}
		if r, err := keep.Recv(); err != nil || r.ID != int64(i) {
			t.Fatal(r, err)
		}
	}
}
