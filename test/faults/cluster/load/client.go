package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// The keys are few, so that clients collide on them.
const (
	plainKeys = 40
	counters  = 5
	groups    = 6
	page      = 9 // objects in a page
)

// client is one of many clients, each of which waits for its answers.
type client struct {
	*rand.Rand
	*clientv3.Client
	id      int
	replica string
	run     *Run
	j       *history.Journal
}

// serve sends requests of all kinds until ctx ends.
func (c *client) serve(ctx context.Context) { c.each(ctx, c.step) }

// look only reads until ctx ends: it shows whether a replica answers while writes wait.
func (c *client) look(ctx context.Context) {
	c.each(ctx, func(ctx context.Context) { c.get(ctx, c.key()) })
}

// each sends one request after another until ctx ends. A request in progress then still gets its answer.
func (c *client) each(ctx context.Context, step func(context.Context)) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		op, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
		step(op)
		cancel()
	}
}

func (c *client) step(ctx context.Context) {
	switch n := c.IntN(100); {
	case n < 25:
		c.put(ctx, 0, c.key())
	case n < 35:
		g := c.IntN(groups)
		c.put(ctx, 0, fmt.Sprintf("t/%d/a", g), fmt.Sprintf("t/%d/b", g), fmt.Sprintf("t/%d/c", g))
	case n < 45:
		c.delete(ctx, c.key())
	case n < 60:
		c.swap(ctx, fmt.Sprintf("c/%d", c.IntN(counters)))
	case n < 70:
		c.swap(ctx, c.key())
	case n < 95:
		c.get(ctx, c.key())
	case n < 97:
		c.list(ctx, "k/")
	default:
		c.pages(ctx, "k/")
	}
}

func (c *client) key() string { return fmt.Sprintf("k/%02d", c.IntN(plainKeys)) }

func (c *client) begin(o history.Op) *history.Op {
	o.Client, o.Replica = c.id, c.replica
	return c.j.Begin(o)
}

// end records an error, or an answer, from which fill takes the fields of the operation's kind.
func (c *client) end(o *history.Op, err error, header *pb.ResponseHeader, fill func(*history.Op)) bool {
	if err != nil && !c.expected(o, err) {
		c.run.violation(fmt.Errorf("%v: %w", o, err))
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		c.j.Missed(o.Lease)
	}
	c.j.End(o, func(o *history.Op) {
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			o.Outcome = history.Refused
		case err != nil:
			o.Err = code(err).String()
		default:
			o.Outcome, o.Revision = history.Done, header.Revision
			fill(o)
		}
	})
	return err == nil
}

// expected reports whether a correct server may answer an operation with this error.
func (c *client) expected(o *history.Op, err error) bool {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return o.Lease != 0
	case errors.Is(err, rpctypes.ErrCompacted): // between two pages
		return o.Kind == history.List
	default:
		return c.run.expects(err)
	}
}

// put puts all keys in one transaction.
func (c *client) put(ctx context.Context, lease clientv3.LeaseID, keys ...string) bool {
	o := c.begin(history.Op{Kind: history.Put, Keys: keys, Lease: int64(lease)})
	if len(keys) == 1 {
		r, err := c.Put(ctx, keys[0], o.Value, clientv3.WithLease(lease))
		var header *pb.ResponseHeader
		if err == nil {
			header = r.Header
		}
		return c.end(o, err, header, nothing)
	}
	var puts []clientv3.Op
	for _, k := range keys {
		puts = append(puts, clientv3.OpPut(k, o.Value, clientv3.WithLease(lease)))
	}
	r, err := c.Txn(ctx).Then(puts...).Commit()
	return c.end(o, err, headerOf(r), nothing)
}

func (c *client) delete(ctx context.Context, key string) {
	o := c.begin(history.Op{Kind: history.Delete, Keys: []string{key}})
	r, err := c.Delete(ctx, key)
	var header *pb.ResponseHeader
	if err == nil {
		header = r.Header
	}
	c.end(o, err, header, func(o *history.Op) {
		if r.Deleted == 0 {
			o.Outcome = history.Refused
		}
	})
}

// swap reads and then puts unless another client was faster, as kube-apiserver does.
func (c *client) swap(ctx context.Context, key string) {
	old, ok := c.get(ctx, key)
	if !ok {
		return
	}
	var mod int64
	if len(old) > 0 {
		mod = old[0].Mod
	}
	o := c.begin(history.Op{Kind: history.Swap, Keys: []string{key}, Expect: mod})
	r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", mod)).Then(clientv3.OpPut(key,
		o.Value)).Commit()
	c.end(o, err, headerOf(r), func(o *history.Op) {
		if !r.Succeeded {
			o.Outcome = history.Refused
		}
	})
}

func (c *client) get(ctx context.Context, key string) ([]history.KV, bool) {
	return c.read(ctx, history.Get, key)
}

func (c *client) list(ctx context.Context, prefix string) {
	c.read(ctx, history.List, prefix, clientv3.WithPrefix())
}

// pages lists a prefix in pages, all at the revision of the first one, as kube-apiserver does.
func (c *client) pages(ctx context.Context, prefix string) {
	o := c.begin(history.Op{Kind: history.List, Keys: []string{prefix}})
	var header *pb.ResponseHeader
	var found []history.KV
	for next, more := prefix, true; more; {
		opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(page)}
		if header != nil {
			opts = append(opts, clientv3.WithRev(header.Revision))
		}
		r, err := c.Get(ctx, next, opts...)
		if err != nil {
			c.end(o, err, nil, nothing)
			return
		}
		if header == nil {
			header = r.Header
		}
		found = append(found, kvs(r.Kvs)...)
		if more = r.More; more {
			next = found[len(found)-1].Key + "\x00"
		}
	}
	c.end(o, nil, header, func(o *history.Op) { o.Found = found })
}

func (c *client) read(ctx context.Context, kind history.Kind, key string, opts ...clientv3.OpOption) ([]history.KV,
	bool,
) {
	o := c.begin(history.Op{Kind: kind, Keys: []string{key}})
	r, err := c.Get(ctx, key, opts...)
	var header *pb.ResponseHeader
	var found []history.KV
	if err == nil {
		header, found = r.Header, kvs(r.Kvs)
	}
	ok := c.end(o, err, header, func(o *history.Op) { o.Found = found })
	return found, ok
}

func kvs(from []*mvccpb.KeyValue) []history.KV {
	var list []history.KV
	for _, kv := range from {
		list = append(list, history.KV{
			Key: string(kv.Key), Value: string(kv.Value), Mod: kv.ModRevision,
			Create: kv.CreateRevision, Version: kv.Version, Lease: kv.Lease,
		})
	}
	return list
}

func headerOf(r *clientv3.TxnResponse) *pb.ResponseHeader {
	if r == nil {
		return nil
	}
	return r.Header
}

func nothing(*history.Op) {}
