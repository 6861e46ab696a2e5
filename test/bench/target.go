package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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

// target is one server under test, with its data, its connections and what the client knows of its contents.
type target struct {
	*server
	c        *config
	dir      string
	replicas []*process
	addrs    []string // of the replicas
	postgres *postgres
	conns    []*grpc.ClientConn // to the replicas in turn
	kvs      []pb.KVClient

	objects   []object // all objects, in key order; object i is updated by client i % clients only
	created   []object // made by a create phase and not yet deleted
	sequence  atomic.Int64
	badges    badges
	compacted int64 // the revision last compacted
	noStream  bool  // answers RangeStream with Unimplemented

	objectURLs []string // of the list/watch API at the replicas
	http       *http.Client
	walked     map[string]map[place]*outcome // by API: the results of a walk, until they are reported
	retention  time.Duration                 // of automatic compaction, 0 for none
}

// newTarget creates a server's directory and starts its own database, if it has one.
func newTarget(s *server, c *config) (*target, error) {
	t := &target{server: s, c: c, dir: filepath.Join(c.dir, s.name+"-data")}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if s.onPostgres {
		t.postgres, err = newPostgres(filepath.Join(c.dir, s.name+"-database"))
	}
	return t, err
}

// startTimeout is for etcd and kine with a million objects.
const startTimeout = 10 * time.Minute

// start launches all replicas and returns how long it took until each had answered its first read.
func (t *target) start(durable bool) (ready time.Duration, err error) {
	l := launching{dir: t.dir, durable: durable, retention: t.retention, auth: t.hasUsers()}
	if t.postgres != nil {
		if err := t.postgres.setDurable(durable); err != nil {
			return 0, err
		}
		l.dsn = t.postgres.dsn
	}
	defer func() {
		if err != nil {
			_ = t.end(syscall.SIGKILL)
		}
	}()
	t.addrs, t.objectURLs = nil, nil
	t.http = &http.Client{Transport: authorized{&t.badges, &http.Transport{MaxIdleConnsPerHost: t.c.conns}}}
	began := time.Now()
	for l.replica = 1; l.replica <= t.count; l.replica++ {
		l.port = freePort()
		if t.hasObjects {
			l.objects = freePort()
			t.objectURLs = append(t.objectURLs, "http://127.0.0.1:"+l.objects)
		}
		p, err := startProcess(t.bin, t.args(l), nil)
		if err != nil {
			return 0, err
		}
		t.replicas = append(t.replicas, p)
		t.addrs = append(t.addrs, "127.0.0.1:"+l.port)
	}
	for _, addr := range t.addrs {
		if err := t.awaitListener(addr, began.Add(startTimeout)); err != nil {
			return 0, err
		}
	}
	if err := t.dial(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if t.hasUsers() {
		if err := t.login(ctx); err != nil {
			return 0, err
		}
	}
	for _, kv := range t.kvs[:t.count] {
		for {
			_, err = kv.Range(ctx, &pb.RangeRequest{Key: objectKey(0), Limit: 1}, grpc.WaitForReady(true))
			if err == nil {
				break
			}
			if dead := t.dead(); dead != nil || ctx.Err() != nil {
				return 0, fmt.Errorf("%s does not get ready: %w", t.name, errors.Join(err, dead))
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return time.Since(began), nil
}

// hasUsers reports whether the target runs with authentication enabled.
func (t *target) hasUsers() bool { return t.c.auth && !t.oneKey && !t.canned }

// awaitListener waits until a replica accepts connections.
func (t *target) awaitListener(addr string, deadline time.Time) error {
	for {
		if err := t.dead(); err != nil {
			return err
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen: %w", t.name, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// dial opens as many connections as kube-apiserver would, the same number to each replica.
func (t *target) dial() error {
	t.conns, t.kvs = nil, nil
	each := (t.c.conns + t.count - 1) / t.count
	for i := range each * t.count {
		options := []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.ForceCodecV2(newCodec())),
		}
		if t.hasUsers() {
			options = append(options, t.badges.dialOptions()...)
		}
		conn, err := grpc.NewClient("passthrough:///"+t.addrs[i%t.count], options...)
		if err != nil {
			return err
		}
		t.conns = append(t.conns, conn)
		t.kvs = append(t.kvs, pb.NewKVClient(conn))
	}
	return nil
}

func (t *target) kv(worker int) pb.KVClient { return t.kvs[worker%len(t.kvs)] }

// remove ends the server and its database and deletes their data.
func (t *target) remove() error {
	err := t.end(syscall.SIGKILL)
	if t.postgres != nil {
		err = errors.Join(err, t.postgres.remove())
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

// restart ends the server with sig and starts it durably on the same data.
func (t *target) restart(sig syscall.Signal) (time.Duration, error) {
	if err := t.end(sig); err != nil {
		return 0, err
	}
	syscall.Sync()
	return t.start(true)
}

// retain restarts the server unless it already runs with this retention.
func (t *target) retain(retention time.Duration) error {
	if t.retention == retention || t.canned {
		return nil
	}
	t.retention = retention
	_, err := t.restart(syscall.SIGTERM)
	return err
}

const (
	compactTries = 50
	compactWait  = 100 * time.Millisecond
)

// compact compacts everything before the current revision, waits until the rows are deleted, and returns the number of
// compacted revisions.
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
		if err == nil || rpctypes.Error(err) == rpctypes.ErrCompacted { //nolint:errorlint // a value that is compared
			break // automatic compaction was faster
		}
		if tries == compactTries && t.lags {
			fmt.Printf("%s was not compacted: %v\n", t.name, err)
			return 0, nil
		}
		if tries == compactTries || status.Code(err) != codes.OutOfRange {
			return 0, fmt.Errorf("compact at %d: %w", res.Header.Revision, err)
		}
		if t.lags && tries%10 == 0 { // kine on Postgres learns of it only with a write
			if _, err := t.newUpdates().one(ctx, 0); err != nil {
				return 0, err
			}
		}
		time.Sleep(compactWait) // kine returns a revision before it knows it everywhere
	}
	t.compacted = res.Header.Revision
	return n, nil
}

var errWrong = errors.New("wrong answer")

// wrong is the error for an answer that differs from etcd's.
func (t *target) wrong(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", t.name, errWrong, fmt.Sprintf(format, args...))
}
