package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// pointPhases are the operations on one key, in a closed loop or, if rate is set, at a fixed rate.
func (c *config) pointPhases(rate float64, suffix string) []*phase {
	closed := func(s func(*target) step) func(context.Context, *target) (*outcome, error) {
		return func(ctx context.Context, t *target) (*outcome, error) {
			return report(load{clients: c.clients, span: c.span, rate: rate}.run(ctx, s(t)))
		}
	}
	return []*phase{
		{name: "get" + suffix, run: closed((*target).getter)},
		{name: "update" + suffix, run: closed((*target).updater)},
		{
			name: "create" + suffix, prepare: func(ctx context.Context, t *target) error {
				return t.deleteCreated(ctx)
			},
			run: func(ctx context.Context, t *target) (*outcome, error) {
				return t.createFor(ctx, load{clients: c.clients, span: c.span, rate: rate})
			},
		},
		// Deletes what create made, however long it takes.
		{
			name: "delete" + suffix, prepare: func(ctx context.Context, t *target) error { return t.haveCreated(ctx) },
			run: func(ctx context.Context, t *target) (*outcome, error) {
				return report(load{clients: c.clients, rate: rate}.run(ctx, t.deleter()))
			},
		},
	}
}

func report(latency []time.Duration, wall time.Duration, err error) (*outcome, error) {
	return &outcome{ops: len(latency), wall: wall, latency: latency}, err
}

// getter reads random objects as kube-apiserver's Get does.
func (t *target) getter() step {
	type client struct {
		req pb.RangeRequest
	}
	clients := make([]client, max(t.c.clients, 2*len(t.conns))) // as many wake it
	return func(ctx context.Context, n int) (bool, error) {
		c := &clients[n]
		i := rand.IntN(len(t.objects))
		c.req.Key, c.req.Limit = t.objects[i].key, 1
		res, err := t.kv(n).Range(ctx, &c.req)
		if err != nil {
			return false, err
		}
		switch {
		case len(res.Kvs) != 1 || len(res.Kvs[0].Value) != t.c.value:
			return false, t.wrong("get %s: %d objects", c.req.Key, len(res.Kvs))
		case t.canned:
		case !bytes.Equal(res.Kvs[0].Key, c.req.Key) || res.Kvs[0].ModRevision != t.objects[i].mod || res.Count != 1:
			return false, t.wrong("get %s: mod_revision %d, should be %d", c.req.Key, res.Kvs[0].ModRevision,
				t.objects[i].mod)
		}
		return true, nil
	}
}

// updates replaces random objects. Each client has its own, so that every compare must hold.
type updates struct {
	t      *target
	txns   []*txn
	values [][]byte
}

func (t *target) newUpdates() *updates { return &updates{t, t.txns(true, true), t.values()} }

// one updates an object as client n and returns the new revision, 0 if the client has none.
func (u *updates) one(ctx context.Context, n int) (int64, error) {
	clients := u.t.c.clients
	own := (len(u.t.objects) - n + clients - 1) / clients
	if own <= 0 {
		return 0, nil
	}
	i := n + clients*rand.IntN(own)
	o := &u.t.objects[i]
	stampValue(u.values[n], i)
	u.txns[n].fill(o.key, o.mod, u.values[n])
	rev, err := u.t.commit(ctx, n, u.txns[n], o.mod)
	if err == nil {
		o.mod = rev
	}
	return rev, err
}

func (t *target) updater() step {
	u := t.newUpdates()
	return func(ctx context.Context, n int) (bool, error) {
		rev, err := u.one(ctx, n)
		return rev > 0, err
	}
}

// commit sends a transaction that must succeed and returns its revision, which must be above the last one.
func (t *target) commit(ctx context.Context, n int, x *txn, last int64) (int64, error) {
	res, err := t.kv(n).Txn(ctx, &x.req)
	if err != nil {
		return 0, err
	}
	if !res.Succeeded || len(res.Responses) != 1 || res.Header.GetRevision() <= last && !t.canned {
		return 0, t.wrong("txn on %s at %d: succeeded %v, revision %d", x.cmp.Key, last, res.Succeeded,
			res.Header.GetRevision())
	}
	if x.del != nil && res.Responses[0].GetResponseDeleteRange().GetDeleted() != 1 {
		return 0, t.wrong("delete of %s deleted nothing", x.cmp.Key)
	}
	return res.Header.Revision, nil
}

func (t *target) txns(put, orElse bool) []*txn {
	all := make([]*txn, t.c.clients)
	for i := range all {
		all[i] = newTxn(put, orElse)
	}
	return all
}

func (t *target) values() [][]byte {
	all := make([][]byte, t.c.clients)
	for i := range all {
		all[i] = newValue(t.c.value)
	}
	return all
}

// createFor creates new objects and keeps them for deletion.
func (t *target) createFor(ctx context.Context, l load) (*outcome, error) {
	txns, values, made := t.txns(true, false), t.values(), make([][]object, l.clients)
	out, err := report(l.run(ctx, func(ctx context.Context, n int) (bool, error) {
		id := t.sequence.Add(1)
		key := createdKey(id)
		stampValue(values[n], int(id))
		txns[n].fill(key, 0, values[n])
		rev, err := t.commit(ctx, n, txns[n], 0)
		made[n] = append(made[n], object{key, rev})
		return true, err
	}))
	for _, m := range made {
		t.created = append(t.created, m...)
	}
	return out, err
}

// deleter deletes what was created, at the revision it was created at.
func (t *target) deleter() step {
	txns := t.txns(false, true)
	todo := t.created
	t.created = nil
	var next atomic.Int64
	return func(ctx context.Context, n int) (bool, error) {
		i := next.Add(1) - 1
		if i >= int64(len(todo)) {
			return false, nil
		}
		txns[n].fill(todo[i].key, todo[i].mod, nil)
		_, err := t.commit(ctx, n, txns[n], todo[i].mod)
		return true, err
	}
}

// deleteCreated removes the objects that an earlier create phase left.
func (t *target) deleteCreated(ctx context.Context) error {
	_, _, err := load{clients: t.c.clients}.run(ctx, t.deleter())
	return err
}

// haveCreated creates something to delete if no create phase did.
func (t *target) haveCreated(ctx context.Context) error {
	if len(t.created) > 0 {
		return nil
	}
	_, err := t.createFor(ctx, load{clients: t.c.clients, span: t.c.span})
	return err
}
