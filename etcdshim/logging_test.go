package etcdshim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/store"
)

// lockedBuffer is a buffer that a server writes and a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestSlowRequestsAreLogged(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := serve(t, Options{ClientURLs: []string{"http://x"}, WarningDuration: time.Nanosecond, Logger: logger},
		store.Config{})
	ctx := t.Context()
	if _, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte("the-key"), Value: []byte("secret")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b"), Limit: 7}); err != nil {
		t.Fatal(err)
	}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key:   []byte("in-txn"),
		Value: []byte("secret"),
	}}}
	if _, err := s.kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{put}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || strings.Contains(log.String(), "secret") {
		t.Fatalf("logged:\n%s", log.String())
	}
	for i, want := range [][]string{
		{"method=/etcdserverpb.KV/Put", "key=the-key", "client=127.0.0.1:", "code=OK"},
		{"method=/etcdserverpb.KV/Range", "key=a range-end=b limit=7"},
		{"method=/etcdserverpb.KV/Txn", "key=in-txn", "operations=1"},
	} {
		for _, part := range append(want, `level=WARN msg="slow request"`) {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s: no %s", lines[i], part)
			}
		}
	}
}

func TestMaintenanceIsLogged(t *testing.T) {
	var log lockedBuffer
	s := serve(t, Options{ClientURLs: []string{"http://x"}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		store.Config{})
	if _, err := s.maint.Defragment(t.Context(), &pb.DefragmentRequest{}); err != nil {
		t.Fatal(err)
	}
	stream, err := s.maint.Snapshot(t.Context(), &pb.SnapshotRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{
		`"defragmentation started"`, `"defragmentation done"`, `"snapshot started"`,
		`"snapshot sent"`,
	} {
		_, rest, found := strings.Cut(text, want)
		if !found {
			t.Fatalf("no %s, in this order:\n%s", want, log.String())
		}
		text = rest
	}
}

// Operations that clients repeat do not fill the log.
func TestMaintenanceIsLoggedInBounds(t *testing.T) {
	var log lockedBuffer
	s := serve(t, Options{ClientURLs: []string{"http://x"}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		store.Config{})
	const asked = 30
	for range asked {
		if _, err := s.maint.Defragment(t.Context(), &pb.DefragmentRequest{}); err != nil {
			t.Fatal(err)
		}
		stream, err := s.maint.Snapshot(t.Context(), &pb.SnapshotRequest{})
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	for _, what := range []string{
		"defragmentation started", "defragmentation done", "snapshot started",
		"snapshot sent",
	} {
		if n := strings.Count(log.String(), what); n == 0 || n >= asked {
			t.Errorf("%d of %d times: %s", n, asked, what)
		}
	}
}

func TestSnapshotProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		p := &progress{log: slog.New(slog.NewTextHandler(&log, nil)), size: 100, last: time.Now()}
		for range 25 { // one a second
			time.Sleep(time.Second)
			p.advance(4)
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "sent-bytes=40 bytes=100") ||
			!strings.Contains(text, "sent-bytes=80") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

func TestSlowRequestsAreLoggedInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		s := newSlowCalls(&Options{
			WarningDuration: 300 * time.Millisecond,
			Logger:          slog.New(slog.NewTextHandler(&log, nil)),
		})
		call := func(method string, duration time.Duration) {
			_, _ = s.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) {
					time.Sleep(duration)
					return new(struct{}), nil
				})
		}
		call("fast", 299*time.Millisecond)
		call("/v3lockpb.Lock/Lock", time.Hour)
		if log.String() != "" {
			t.Errorf("logged:\n%s", log.String())
		}
		for range 20 {
			call("slow", 300*time.Millisecond)
		}
		call("slow", 10*time.Second)
		if n := strings.Count(log.String(), "slow request"); n != 11 || !strings.Contains(log.String(),
			"not-logged-before=10") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}
