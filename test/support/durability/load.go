package durability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// Clients is how many clients a Load has by default.
const Clients = 32

const (
	keySpace  = 60               // few, so that clients collide on them
	leaseTTL  = 24 * time.Hour   // no lease expires
	opTimeout = 20 * time.Second // longer than any answer takes: an open connection without an answer is a failure
)

// Load is what many concurrent clients write.
type Load struct {
	// Endpoints are those of the servers, which are replicas: each request goes to any of them.
	Endpoints []string
	// Seed decides what the clients write; the order in which a server receives it still varies.
	Seed uint64
	// Clients is the number of clients; 0 means [Clients].
	Clients int
	// Steps is how many steps each client takes; 0 means that only the end of ctx or of the servers ends the load.
	Steps int
	// Down, when closed, says that the servers may answer with any error from now on; it may be nil.
	Down <-chan struct{}
}

// Run writes until ctx ends, the last server dies or all steps are done, and returns the first error that no correct
// server answers with.
func (l Load) Run(ctx context.Context, r *Record) error {
	if l.Clients == 0 {
		l.Clients = Clients
	}
	var all errgroup.Group
	for i := range l.Clients {
		all.Go(func() error {
			c := &client{Rand: rand.New(rand.NewPCG(l.Seed, uint64(i))), Record: r, number: i}
			for _, endpoint := range l.Endpoints {
				conn, err := dial(endpoint)
				if err != nil {
					return err
				}
				defer conn.Close()
				c.conns = append(c.conns, conn)
			}
			return c.run(ctx, l)
		})
	}
	return all.Wait()
}

func dial(endpoint string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+endpoint,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// client is one of many concurrent writers.
type client struct {
	*rand.Rand
	*Record
	number int
	conns  []*grpc.ClientConn // to the replicas that have not failed it
	conn   *grpc.ClientConn   // to the current replica
}

func (c *client) run(ctx context.Context, l Load) error {
	for n := 0; ctx.Err() == nil && len(c.conns) > 0 && (l.Steps == 0 || n < l.Steps); n++ {
		asked := c.IntN(len(c.conns))
		c.conn = c.conns[asked]
		// Not bounded by ctx: a request in progress when the load ends gets its answer.
		op, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
		err := c.step(op)
		cancel()
		switch {
		case err == nil:
		case status.Code(err) == codes.Unavailable: // the server was killed; the outcome of the request is unknown
			c.conns = slices.Delete(c.conns, asked, asked+1)
		case closed(l.Down):
			return nil
		default:
			return err
		}
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (c *client) step(ctx context.Context) error {
	key := fmt.Sprintf("k/%02d", c.IntN(keySpace))
	switch n := c.IntN(100); {
	case n < 35:
		return c.do(ctx, history.Op{Kind: history.Put, Keys: []string{key}})
	case n < 60: // keys that only ever change together
		g := c.IntN(10)
		keys := []string{fmt.Sprintf("t/%d/a", g), fmt.Sprintf("t/%d/b", g), fmt.Sprintf("t/%d/c", g)}
		return c.do(ctx, history.Op{Kind: history.Put, Keys: keys})
	case n < 75:
		return c.do(ctx, history.Op{Kind: history.Delete, Keys: []string{key}})
	case n < 85:
		return c.update(ctx, key)
	case n < 90:
		return c.grant(ctx)
	case n < 95:
		return c.revoke(ctx)
	default:
		return c.do(ctx, history.Op{Kind: history.List, Keys: []string{"k/"}})
	}
}

func (c *client) do(ctx context.Context, o history.Op) error {
	o.Client = c.number
	_, err := c.Do(ctx, c.conn, o)
	return err
}

// update works like kube-apiserver's: read, then put unless another client was faster.
func (c *client) update(ctx context.Context, key string) error {
	old, err := c.Do(ctx, c.conn, history.Op{Client: c.number, Kind: history.Get, Keys: []string{key}})
	if err != nil {
		return err
	}
	o := history.Op{Kind: history.Swap, Keys: []string{key}}
	if len(old.Found) > 0 {
		o.Expect = old.Found[0].Mod
	}
	return c.do(ctx, o)
}

// grant grants a lease and puts one key with it.
func (c *client) grant(ctx context.Context) error {
	id, sent := c.lease.Add(1), c.Now()
	c.Granted(id, leaseTTL, 0)
	req := &pb.LeaseGrantRequest{ID: id, TTL: int64(leaseTTL / time.Second)}
	if _, err := pb.NewLeaseClient(c.conn).LeaseGrant(ctx, req); err != nil {
		return err
	}
	c.Renewed(id, sent)
	c.acked.Add(1)
	o := history.Op{Kind: history.Put, Keys: []string{fmt.Sprintf("%s%d", history.LeasePrefix, id)}, Lease: id}
	if err := c.do(ctx, o); err != nil {
		return err
	}
	select {
	case c.alive <- id:
	default: // it stays
	}
	return nil
}

// revoke revokes the oldest lease, if there is one.
func (c *client) revoke(ctx context.Context) error {
	select {
	case id := <-c.alive:
		return c.do(ctx, history.Op{Kind: history.Revoke, Lease: id})
	default:
		return nil
	}
}
