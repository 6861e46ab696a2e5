package hostile

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const (
	// probeInterval is the time between two rounds of the well-behaved client.
	probeInterval = 50 * time.Millisecond
	// probeConnects is the number of rounds of which one uses a new connection.
	probeConnects = 10
	// probeTimeout is how long it waits: far longer than any acceptable latency, so that the table can show the actual
	// one.
	probeTimeout = 30 * time.Second
)

// probe is a well-behaved client that puts a key, reads it back and records the latency.
type probe struct {
	target *target
	kv     pb.KVClient
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	worst  time.Duration // of a put or a get
	rounds int
	failed error // the first failure
}

func startProbe(t *target) (*probe, error) {
	p := &probe{target: t, ended: make(chan struct{})}
	var err error
	if p.conn, err = p.target.grpc(); err != nil {
		return nil, err
	}
	p.kv = pb.NewKVClient(p.conn)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
	return p, nil
}

func (p *probe) run(ctx context.Context) {
	defer close(p.ended)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := p.round(ctx, p.kv)
		if err == nil && round%probeConnects == 0 {
			err = p.anew(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.rounds++
		if err != nil && p.failed == nil {
			p.failed = err
		}
		p.mu.Unlock()
	}
}

// anew is a round over a new connection.
func (p *probe) anew(ctx context.Context) error {
	conn, err := p.target.grpc()
	if err != nil {
		return err
	}
	defer conn.Close()
	return p.round(ctx, pb.NewKVClient(conn))
}

func (p *probe) round(ctx context.Context, kv pb.KVClient) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	key := []byte("probe")
	began := time.Now()
	put, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: key}, grpc.WaitForReady(true))
	began = p.took(ctx, began)
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	got, err := kv.Range(ctx, &pb.RangeRequest{Key: key})
	p.took(ctx, began)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	// An attacker may write the same key, or delete it.
	if got.Header.Revision < put.Header.Revision || len(got.Kvs) == 1 && got.Kvs[0].ModRevision < put.Header.Revision {
		return fmt.Errorf("get: %v after a put at revision %d", got, put.Header.Revision)
	}
	return nil
}

// took records the latency of a call that began at the given time, and returns the current time.
func (p *probe) took(ctx context.Context, began time.Time) time.Time {
	now := time.Now()
	if ctx.Err() == nil || now.Sub(began) >= probeTimeout { // not the test's own end
		p.mu.Lock()
		p.worst = max(p.worst, now.Sub(began))
		p.mu.Unlock()
	}
	return now
}

// await returns after n rounds.
func (p *probe) await(t *testing.T, rounds int) {
	t.Helper()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		p.mu.Lock()
		done, failed := p.rounds, p.failed
		p.mu.Unlock()
		if failed != nil {
			t.Fatalf("before the abuse: %v", failed)
		}
		if done >= rounds {
			return
		}
		<-tick.C
	}
}

// stop ends the probe; worst and failed are final then.
func (p *probe) stop() {
	p.cancel()
	<-p.ended
	_ = p.conn.Close()
}
