package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	// opTimeout is a client's timeout. A server that can answer must give up earlier.
	opTimeout = 12 * time.Second
	// pace is the minimum time between two requests of a client, which keeps the load low enough for a small machine.
	pace         = 10 * time.Millisecond
	perReplica   = 3 // clients bound to each replica, besides one that only reads
	roaming      = 3 // clients of all replicas
	leaseClients = 3
)

// Replica is one server of the cluster.
type Replica struct{ Name, Endpoint string }

// Run is the load on one cluster.
type Run struct {
	Journal *history.Journal
	// From is the revision before the load.
	From int64
	// Watches are one watch of everything on each replica, then one watch of a part on each, which requires a leader,
	// then one over all replicas. Those of replicas that join later follow.
	Watches []*Watch
	// Keepers are leases that are kept alive for the whole run, through all replicas.
	Keepers []clientv3.LeaseID

	seed        uint64
	faults      []error            // accepted besides those of an outage
	clients     int                // started so far
	roaming     []*clientv3.Client // those that use all replicas
	ctx         context.Context    // of the load
	watchCtx    context.Context
	stopLoad    context.CancelFunc
	stopWatches context.CancelFunc
	load        sync.WaitGroup
	watching    sync.WaitGroup

	mu       sync.Mutex
	members  []*member // never empty
	failures []Failure // of grants
	errs     []error   // answers that no correct server gives
}

// Start puts an idle cluster under load until Stop or the end of the test. The watches begin after revision from. The
// test's faults may cause an outage, and the errors in faults.
func Start(tb testing.TB, replicas []Replica, from int64, faults ...error) *Run {
	tb.Helper()
	r := &Run{Journal: history.NewJournal(), From: from, seed: rand.Uint64(), faults: faults}
	r.ctx, r.stopLoad = context.WithCancel(context.Background())
	r.watchCtx, r.stopWatches = context.WithCancel(context.Background())
	tb.Cleanup(func() {
		r.Stop()
		r.StopWatches()
	})
	for _, replica := range replicas {
		r.members = append(r.members, r.newMember(tb, replica))
	}
	for _, m := range r.members {
		m.watch(tb, r, everything(m.Name))
	}
	for _, m := range r.members {
		m.watch(tb, r, part(m.Name))
	}
	r.roam(r.watch(tb, &Watch{Name: "everything, on any replica", leader: true}, r.endpoints()...))
	for _, m := range r.members {
		m.serve(tb, r)
	}
	for range roaming {
		r.roam(r.start(tb, r.ctx, "", (*client).serve, r.endpoints()...))
	}
	for range leaseClients {
		r.roam(r.start(tb, r.ctx, "", (*client).leases, r.endpoints()...))
	}
	return r
}

func (r *Run) roam(c *clientv3.Client) { r.roaming = append(r.roaming, c) }

// start starts one client, which sends its requests until ctx ends.
func (r *Run) start(tb testing.TB, ctx context.Context, replica string, do func(*client, context.Context),
	endpoints ...string,
) *clientv3.Client {
	tb.Helper()
	r.clients++
	c := &client{
		Rand: rand.New(rand.NewPCG(r.seed, uint64(r.clients))), id: r.clients, replica: replica, run: r, j: r.Journal,
		Client: connect(tb, endpoints...),
	}
	r.load.Go(func() { do(c, ctx) })
	return c.Client
}

// connect creates a client that fails when its server does, and reconnects as soon as possible.
func connect(tb testing.TB, endpoints ...string) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 20 * time.Millisecond, Multiplier: 1.5,
				MaxDelay: 100 * time.Millisecond,
			},
			MinConnectTimeout: 2 * time.Second,
		})},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Stop ends the load and waits for outstanding answers. The watches continue.
func (r *Run) Stop() {
	r.stopLoad()
	r.load.Wait()
}

// StopWatches ends the watches.
func (r *Run) StopWatches() {
	r.stopWatches()
	r.watching.Wait()
}

// Err returns the answers that no correct server gives.
func (r *Run) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

func (r *Run) violation(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) < 20 {
		r.errs = append(r.errs, fmt.Errorf("at %v: %w", r.Journal.Now().Round(time.Millisecond), err))
	}
}

// Compactable returns the newest revision up to which every watch has seen the history.
func (r *Run) Compactable() int64 {
	revision := int64(math.MaxInt64)
	for _, w := range r.Watches {
		revision = min(revision, w.next()-1)
	}
	return revision
}

// WaitWrites waits until every replica has acknowledged n writes, sent from now on by its own clients.
func (r *Run) WaitWrites(ctx context.Context, n int, names ...string) error {
	if len(names) == 0 {
		for _, replica := range r.Members() {
			names = append(names, replica.Name)
		}
	}
	began := r.Journal.Now()
	for {
		counts := map[string]int{}
		r.Journal.Since(began, func(o history.Op) {
			if o.Outcome == history.Done && o.Kind.Writes() {
				counts[o.Replica]++
			}
		})
		missing := ""
		for _, name := range names {
			if counts[name] < n {
				missing = name
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("clients of %s got %d writes acknowledged in %v, want %d: %w", missing, counts[missing],
				r.Journal.Now()-began, n, ctx.Err())
		case <-time.After(pace):
		}
	}
}

// code returns gRPC's name of an error's status.
func code(err error) codes.Code {
	var e rpctypes.EtcdError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.As(err, &e):
		return e.Code()
	default:
		return status.Code(err)
	}
}

// expects reports whether clients must expect an error while the test's faults last.
func (r *Run) expects(err error) bool {
	return Outage(err) || slices.ContainsFunc(r.faults, func(f error) bool { return errors.Is(err, f) })
}

// Outage reports whether an error is nil or one that a client must expect from a server without its database.
func Outage(err error) bool {
	c := code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded
}
