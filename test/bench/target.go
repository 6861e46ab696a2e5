package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// object is a stored object as the client knows it.
type object struct {
	key []byte
	mod int64
}

// target is one server under test, with its data, its connections and what the
// client knows of its contents.
type target struct {
	*server
	*process
	c     *config
	dir   string
	addr  string
	conns []*grpc.ClientConn
	kvs   []pb.KVClient

	objects   []object // all objects, in key order; object i is updated by client i % clients only
	created   []object // made by a create phase and not yet deleted
	sequence  atomic.Int64
	compacted int64 // the revision last compacted
	noStream  bool  // answers RangeStream with Unimplemented
}

func newTarget(s *server, c *config) (*target, error) {
	t := &target{server: s, c: c, dir: filepath.Join(c.dir, s.name+"-data")}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	return t, nil
}

// start launches the server and returns how long it took until it answered its first read.
func (t *target) start(durable bool) (ready time.Duration, err error) {
	port := freePort()
	t.addr = "127.0.0.1:" + port
	began := time.Now()
	if t.process, err = startProcess(t.bin, t.args(t.dir, port, durable), nil); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = t.stop(syscall.SIGKILL)
		}
	}()
	for deadline := began.Add(10 * time.Minute); ; {
		if err := t.dead(); err != nil {
			return 0, err
		}
		conn, err := net.Dial("tcp", t.addr)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%s does not listen: %w", t.name, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err := t.dial(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for {
		_, err = t.kvs[0].Range(ctx, &pb.RangeRequest{Key: objectKey(0), Limit: 1}, grpc.WaitForReady(true))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("%s does not get ready: %w", t.name, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began), nil
}

// dial opens the handful of connections that kube-apiserver would have.
func (t *target) dial() error {
	t.conns, t.kvs = nil, nil
	for range t.c.conns {
		conn, err := grpc.NewClient("passthrough:///"+t.addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.ForceCodecV2(newCodec())))
		if err != nil {
			return err
		}
		t.conns = append(t.conns, conn)
		t.kvs = append(t.kvs, pb.NewKVClient(conn))
	}
	return nil
}

func (t *target) kv(worker int) pb.KVClient { return t.kvs[worker%len(t.kvs)] }

// end closes the connections and stops the server.
func (t *target) end(sig syscall.Signal) error {
	if t.process == nil {
		return nil
	}
	for _, conn := range t.conns {
		conn.Close()
	}
	return t.stop(sig)
}

// restart ends the server with sig and starts it durably on the same data.
func (t *target) restart(sig syscall.Signal) (time.Duration, error) {
	if err := t.end(sig); err != nil {
		return 0, err
	}
	syscall.Sync()
	return t.start(true)
}

const (
	compactTries = 50
	compactWait  = 100 * time.Millisecond
)

// compact compacts everything before the current revision, waits for the rows
// to go, and returns the number of revisions that were compacted.
func (t *target) compact(ctx context.Context) (int64, error) {
	res, err := t.kv(0).Range(ctx, &pb.RangeRequest{Key: objectKey(0), Limit: 1})
	if err != nil {
		return 0, err
	}
	n := res.Header.Revision - t.compacted
	if n == 0 || t.canned {
		return 0, nil
	}
	for tries := 1; ; tries++ {
		_, err := t.kv(0).Compact(ctx, &pb.CompactionRequest{Revision: res.Header.Revision, Physical: true})
		if err == nil {
			break
		}
		if tries == compactTries || status.Code(err) != codes.OutOfRange {
			return 0, fmt.Errorf("compact at %d: %w", res.Header.Revision, err)
		}
		time.Sleep(compactWait) // kine tells of a revision before it knows it everywhere
	}
	t.compacted = res.Header.Revision
	return n, nil
}

var errWrong = errors.New("wrong answer")

// wrong is an error for an answer that is not what etcd would say.
func (t *target) wrong(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", t.name, errWrong, fmt.Sprintf(format, args...))
}
