package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// TestMain makes the test binary the bare server, as the command itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve-bare" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestBare runs every phase completely against the bare server.
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
		// Following needs replicas, and the bare server speaks only gRPC.
		if p.name == compactPhase || p.asked || strings.HasPrefix(p.name, "follow") || strings.HasPrefix(p.name,
			overHTTP) {
			continue
		}
		of := r.of(p.name, "bare")
		if len(of) != 2 {
			t.Errorf("%s: %d slices with operations, want 2", p.name, len(of))
		}
		for _, s := range of {
			if s.Wall <= 0 || s.P50 <= 0 || s.P99 < s.P50 || s.Memory.Peak == 0 {
				t.Errorf("%s: missing figures: %+v", p.name, s)
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
		t.Error("a truncated answer is accepted")
	}
}

func TestPlacesAreWithinTheWalk(t *testing.T) {
	for pages := 1; pages < 100; pages++ {
		last := 0
		for _, p := range places {
			from, to := p.pagesAt(pages)
			if from < 0 || to > pages || from >= to || pages >= 2*shareOfAll && from < last {
				t.Errorf("%s of %d pages is from %d to %d, the one before it ends at %d", p, pages, from, to, last)
			}
			last = to
		}
	}
}

func TestRatiosAreTakenPairByPair(t *testing.T) {
	var r results
	for pair, cpu := range []int64{100, 200, 300} { // the machine gets slower
		for server, factor := range map[string]int64{"bare": 1, "sqlstore": 2, "etcd": 3} {
			r = append(r, slice{
				Phase: "get", Server: server, Pair: pair, Ops: 10, Wall: time.Second,
				CPU: time.Duration(cpu * factor),
			})
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

func TestReplicasAreInTheServersName(t *testing.T) {
	for name, want := range map[string]int{
		"sqlstore": 0, "sqlstore-postgres": 1, "sqlstore-postgres-3": 3,
		"other-postgres-2": 2, "kine-postgres": 1,
	} {
		s, err := newServer(name, "/bin/true", &config{})
		if err != nil {
			t.Fatal(err)
		}
		if s.onPostgres != (want > 0) || s.count != max(1, want) {
			t.Errorf("%s: on Postgres %v, %d replicas", name, s.onPostgres, s.count)
		}
	}
	for _, name := range []string{"other", "other-postgres", "sqlstore-postgres-none"} {
		if _, err := newServer(name, "", &config{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestTree counts, stops and resumes a shell with a busy child.
func TestTree(t *testing.T) {
	// Both end with this test, even if it is killed: the kernel kills the shell, and its child ends once the shell is
	// gone.
	cmd := exec.Command("sh", "-c", "while kill -0 $$; do :; done & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole := tree(cmd.Process.Pid)
	t.Cleanup(func() {
		_ = whole.signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	cpu := func() time.Duration {
		d, err := whole.cpu()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	runs := func(from time.Duration) {
		end := time.After(time.Minute)
		for cpu() < from+20*time.Millisecond {
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("its CPU stays at %v", from)
			}
		}
	}
	runs(cpu())
	if err := whole.pause(); err != nil {
		t.Fatal(err)
	}
	stopped := cpu()
	for range 100 {
		<-tick.C
		if now := cpu(); now != stopped {
			t.Fatalf("stopped, it used %v", now-stopped)
		}
	}
	if err := whole.resume(); err != nil {
		t.Fatal(err)
	}
	runs(stopped)
}

func TestEventsOnAnotherReplicaHaveAnAimOfTime(t *testing.T) {
	r := results{{Phase: "follow", Server: "sqlstore-postgres-2", Ops: 1, P50: 11 * time.Millisecond}}
	for _, a := range aimsOnPostgres {
		v, ok := a.value(r)
		if want := a.phase == "follow" && a.of == "sqlstore-postgres-2"; ok != want || ok &&
			(v.mid != 11 || v.mid <= a.bound) {
			t.Errorf("%s of %s: %v, %v", a.phase, a.of, v, ok)
		}
	}
}
