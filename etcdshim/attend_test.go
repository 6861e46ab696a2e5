package etcdshim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A list whose client has stopped reading ends and releases its rows.
func TestStalledRangeStreamEnds(t *testing.T) {
	s := serve(t, Options{streamTimeout: 100 * time.Millisecond}, store.Config{})
	value := strings.Repeat("v", 64<<10)
	for i := range 200 { // far more than the client's window
		s.put(t, fmt.Sprint("k", i), value)
	}
	stream, err := s.kv.RangeStream(t.Context(), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Compact(t.Context(), s.put(t, "k0", ""), false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call ends", func() bool { return s.Serving() == 0 })
	eventually(t, "nothing is held", func() bool { return s.store.Readers() == "" })
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the client gets %v", err)
	}
}
