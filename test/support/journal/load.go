package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Clients is how many clients a Load has by default.
const Clients = 32

const (
	keySpace  = 60               // few, so that clients collide on them
	leaseTTL  = 86400            // seconds: no lease expires
	opTimeout = 20 * time.Second // longer than any answer takes: an open connection without an answer is a failure
)

// client is one of many concurrent writers.
type client struct {
	*rand.Rand
	j      *Journal
	conns  []*grpc.ClientConn // to the replicas that have not failed it
	kv     pb.KVClient        // of the current replica, like leases
	leases pb.LeaseClient
	last   int64 // newest revision that this client has seen
}

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

// Run writes until ctx ends, the last server dies or all steps are done, and returns the first answer that no correct
// server gives.
func (l Load) Run(ctx context.Context, j *Journal) error {
	if l.Clients == 0 {
		l.Clients = Clients
	}
	var wg sync.WaitGroup
	errs := make(chan error, l.Clients)
	for i := range l.Clients {
		wg.Go(func() {
			c := &client{Rand: rand.New(rand.NewPCG(l.Seed, uint64(i))), j: j}
			for _, endpoint := range l.Endpoints {
				conn, err := grpc.NewClient("passthrough:///"+endpoint,
					grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					errs <- err
					return
				}
				defer conn.Close()
				c.conns = append(c.conns, conn)
			}
			errs <- c.run(ctx, l)
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *client) run(ctx context.Context, l Load) error {
	for n := 0; ctx.Err() == nil && len(c.conns) > 0 && (l.Steps == 0 || n < l.Steps); n++ {
		asked := c.IntN(len(c.conns))
		c.kv, c.leases = pb.NewKVClient(c.conns[asked]), pb.NewLeaseClient(c.conns[asked])
		// Not bounded by ctx: a request in progress when the load ends gets its answer.
		op, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
		err := c.step(op)
		cancel()
		code := status.Code(err)
		switch {
		case code == codes.OK:
		case code == codes.Unavailable: // the server was killed; the outcome of the request is unknown
			c.conns = slices.Delete(c.conns, asked, asked+1)
		case code != codes.DataLoss && closed(l.Down):
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
	switch n := c.IntN(100); {
	case n < 35:
		return c.put(ctx, c.key(), 0)
	case n < 60:
		return c.putSeveral(ctx)
	case n < 75:
		return c.delete(ctx)
	case n < 85:
		return c.update(ctx)
	case n < 95:
		return c.lease(ctx)
	default:
		return c.read(ctx)
	}
}

func (c *client) key() string { return fmt.Sprintf("k/%02d", c.IntN(keySpace)) }

// advance checks that revisions never go back for a client that waits for each answer.
func (c *client) advance(rev int64) error {
	if rev < c.last {
		return status.Errorf(codes.DataLoss, "revision %d after %d", rev, c.last)
	}
	c.last = rev
	return nil
}

// finish records the end of a write that used a revision, unless err leaves the outcome open.
func (c *client) finish(w *Write, o Outcome, rev int64, err error) error {
	if err != nil {
		return err // the write stays unknown
	}
	if err := c.advance(rev); err != nil {
		return err
	}
	return c.j.End(w, o, rev)
}

func (c *client) put(ctx context.Context, key string, lease int64) error {
	w := c.j.Begin([]string{key}, nil)
	r, err := c.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(w.ID), Lease: lease})
	return c.finish(w, Acked, r.GetHeader().GetRevision(), err)
}

// putSeveral writes keys that only ever change together, and deletes one in the same transaction.
func (c *client) putSeveral(ctx context.Context) error {
	n := c.IntN(10)
	keys := []string{fmt.Sprintf("t/%d/a", n), fmt.Sprintf("t/%d/b", n), fmt.Sprintf("t/%d/c", n)}
	w := c.j.Begin(keys, nil)
	txn := &pb.TxnRequest{}
	for _, key := range keys {
		txn.Success = append(txn.Success, PutOp(key, w.ID))
	}
	r, err := c.kv.Txn(ctx, txn)
	return c.finish(w, Acked, r.GetHeader().GetRevision(), err)
}

func (c *client) delete(ctx context.Context) error {
	key := c.key()
	w := c.j.Begin(nil, []string{key})
	r, err := c.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)})
	if r.GetDeleted() == 0 && err == nil {
		return c.finish(w, Refused, r.Header.Revision, nil)
	}
	return c.finish(w, Acked, r.GetHeader().GetRevision(), err)
}

// update works like kube-apiserver's: read, then put unless another client was faster.
func (c *client) update(ctx context.Context) error {
	key := c.key()
	old, err := c.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		return err
	}
	var mod int64
	if len(old.Kvs) > 0 {
		mod = old.Kvs[0].ModRevision
	}
	w := c.j.Begin([]string{key}, nil)
	r, err := c.kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte(key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{
			ModRevision: mod,
		}}},
		Success: []*pb.RequestOp{PutOp(key, w.ID)},
	})
	if err == nil && !r.Succeeded {
		return c.finish(w, Refused, r.Header.Revision, nil)
	}
	return c.finish(w, Acked, r.GetHeader().GetRevision(), err)
}

// lease grants a lease with one key, or revokes one that is still alive.
func (c *client) lease(ctx context.Context) error {
	if id := c.j.takeLease(); id != 0 && c.IntN(2) == 0 {
		return c.revoke(ctx, id)
	} else if id != 0 {
		c.j.keepLease(id)
	}
	id := c.j.nextLease()
	if _, err := c.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: leaseTTL}); err != nil {
		return err
	}
	c.j.granted(id)
	if err := c.put(ctx, leaseKey(id), id); err != nil {
		return err
	}
	c.j.keepLease(id)
	return nil
}

func (c *client) revoke(ctx context.Context, id int64) error {
	w := c.j.Begin(nil, []string{leaseKey(id)})
	w.loose = true
	c.j.lease(id, func(l *lease) { l.wantRevoked = true })
	r, err := c.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
	if err == nil {
		c.j.lease(id, func(l *lease) { l.revoked = Acked })
	}
	return c.finish(w, Acked, r.GetHeader().GetRevision(), err)
}

func (c *client) read(ctx context.Context) error {
	r, err := c.kv.Range(ctx, &pb.RangeRequest{Key: []byte("k/"), RangeEnd: []byte("k0")})
	if err != nil {
		return err
	}
	for _, kv := range r.Kvs {
		if kv.ModRevision > r.Header.Revision {
			return status.Errorf(codes.DataLoss, "%q of revision %d in a read at %d", kv.Key, kv.ModRevision,
				r.Header.Revision)
		}
	}
	return c.advance(r.Header.Revision)
}

func leaseKey(id int64) string { return fmt.Sprintf("l/%d", id) }

// PutOp puts a key in a transaction.
func PutOp(key, value string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key:   []byte(key),
		Value: []byte(value),
	}}}
}
