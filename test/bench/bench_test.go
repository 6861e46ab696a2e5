package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// TestMain lets the test binary be the bare server, as the command itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve-bare" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestBare takes every phase through its whole course against the bare server.
func TestBare(t *testing.T) {
	c, err := parseFlags([]string{"-objects", "1200", "-pairs", "2", "-slice", "50ms", "-rate", "500", "-only", "bare"})
	if err != nil {
		t.Fatal(err)
	}
	c.settle, c.dir = 10*time.Millisecond, t.TempDir()
	if err := c.choose(); err != nil {
		t.Fatal(err)
	}
	r, starts, err := c.measureAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.allPhases() {
		if p.name == compactPhase {
			continue
		}
		of := r.of(p.name, "bare")
		if len(of) != 2 {
			t.Errorf("%s: %d slices with operations, want 2", p.name, len(of))
		}
		for _, s := range of {
			if s.Wall <= 0 || s.P50 <= 0 || s.P99 < s.P50 || s.Memory.Peak == 0 {
				t.Errorf("%s: figures missing: %+v", p.name, s)
			}
		}
	}
	c.printTable(t.Output(), r, starts)
}

func TestWalksAnswersAsProtobufReadsThem(t *testing.T) {
	res := &pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: 7, Revision: 99, RaftTerm: 3}, More: true, Count: 12}
	for i := range 3 {
		v := newValue(20)
		stampValue(v, i)
		res.Kvs = append(res.Kvs, &mvccpb.KeyValue{Key: objectKey(i), Value: v, ModRevision: int64(i + 50), Lease: -1})
	}
	encoded, err := proto.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	r := rangeReply{check: func(i int, k *kv) error {
		got = append(got, fmt.Sprintf("%d %s %d %d %d", i, k.key, k.mod, k.stamp(), len(k.value)))
		return nil
	}}
	if err := r.walk(encoded); err != nil {
		t.Fatal(err)
	}
	if r.revision != 99 || !r.more || r.count != 12 || r.n != 3 {
		t.Errorf("got revision %d, more %v, count %d, n %d", r.revision, r.more, r.count, r.n)
	}
	for i, g := range got {
		if want := fmt.Sprintf("%d %s %d %d 20", i, objectKey(i), i+50, i); g != want {
			t.Errorf("object %q, want %q", g, want)
		}
	}
	if err := r.walk(encoded[:len(encoded)-1]); err == nil {
		t.Error("a truncated answer is taken")
	}
}

func TestRatiosAreTakenPairByPair(t *testing.T) {
	var r results
	for pair, cpu := range []int64{100, 200, 300} { // the machine gets slower
		for server, factor := range map[string]int64{"bare": 1, "sqlstore": 2, "etcd": 3} {
			r = append(r, slice{Phase: "get", Server: server, Pair: pair, Ops: 10, Wall: time.Second, CPU: time.Duration(cpu * factor)})
		}
	}
	if s, ok := r.above("get", "sqlstore", "etcd"); !ok || s != (spread{0.5, 0.5, 0.5}) {
		t.Errorf("above bare: %+v, %v", s, ok)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if _, ok := r.ratio("get", "sqlstore", "kine", perOp); ok {
		t.Error("a ratio to a server that was not measured")
	}
}

func TestFixedRateIsKept(t *testing.T) {
	n, wall, err := load{clients: 8, span: 200 * time.Millisecond, rate: 1000}.run(context.Background(),
		func(context.Context, int) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(n) == 0 || len(n) > 200 || wall > 250*time.Millisecond {
		t.Errorf("%d operations in %v at 1000/s for 200ms", len(n), wall)
	}
}
