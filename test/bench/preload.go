package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// putsInTxn is etcd's default limit of operations in a transaction.
const putsInTxn = 128

// starting is how long a target took to start.
type starting struct {
	Objects int             `json:"objects"`
	Server  string          `json:"server"`
	Fill    time.Duration   `json:"fill"`
	Clean   []time.Duration `json:"ready_after_stop"` // from exec to the first read answered
	Killed  []time.Duration `json:"ready_after_kill"`
	Syncs   float64         `json:"syncs_per_write"` // -1 = not looked at
	Memory  memory          `json:"memory"`          // when ready
}

// bring fills a target, restarts it durably, timed, checks that it syncs, and leaves it paused.
func (c *config) bring(ctx context.Context, t *target) (st starting, err error) {
	st = starting{Objects: c.objects, Server: t.name, Syncs: -1}
	if _, err := t.start(false); err != nil {
		return st, err
	}
	began := time.Now()
	if err := t.fill(ctx); err != nil {
		return st, fmt.Errorf("fill %s: %w", t.name, err)
	}
	st.Fill = time.Since(began)
	for i := range max(1, c.restarts) {
		sig, into := syscall.SIGTERM, &st.Clean
		if i%2 == 1 {
			sig, into = syscall.SIGKILL, &st.Killed
		}
		ready, err := t.restart(sig)
		if err != nil {
			return st, err
		}
		*into = append(*into, ready)
	}
	if st.Memory, err = t.memory(); err != nil {
		return st, err
	}
	if err := t.probeStream(ctx); err != nil {
		return st, err
	}
	if !t.canned {
		if st.Syncs, err = t.countSyncs(ctx); err != nil {
			return st, err
		}
		if _, err := t.compact(ctx); err != nil {
			return st, err
		}
	}
	return st, t.pause()
}

// fill stores all objects in shuffled order and records their revisions.
func (t *target) fill(ctx context.Context) error {
	t.objects = make([]object, t.c.objects)
	for i := range t.objects {
		t.objects[i].key = objectKey(i)
	}
	if t.canned {
		return nil
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(t.objects))
	batch, clients := putsInTxn, 8
	if t.oneKey {
		batch, clients = 1, t.c.clients
	}
	var next atomic.Int64
	txns, value := t.txns(true, false), newValue(t.c.value)
	do := func(ctx context.Context, n int) (bool, error) {
		to := int(next.Add(int64(batch)))
		ids := order[min(to-batch, len(order)):min(to, len(order))]
		if len(ids) == 0 {
			return false, nil
		}
		if t.oneKey {
			o := &t.objects[ids[0]]
			v := append([]byte(nil), value...)
			stampValue(v, ids[0])
			txns[n].fill(o.key, 0, v)
			rev, err := t.commit(ctx, n, txns[n], 0)
			o.mod = rev
			return true, err
		}
		req := &pb.TxnRequest{}
		for _, id := range ids {
			v := append([]byte(nil), value...)
			stampValue(v, id)
			put := &pb.PutRequest{Key: t.objects[id].key, Value: v}
			req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
		}
		res, err := t.kv(n).Txn(ctx, req)
		if err != nil {
			return false, err
		}
		for _, id := range ids {
			t.objects[id].mod = res.Header.Revision
		}
		return true, nil
	}
	if _, _, err := (load{clients: clients}).run(ctx, do); err != nil || t.oneKey {
		return err
	}
	// etcd keeps its last 5,000 to 10,000 transactions in memory and reads them again at start; after a batch of puts
	// that would be far more than in practice.
	var done atomic.Int64
	u := t.newUpdates()
	_, _, err := load{clients: t.c.clients}.run(ctx, func(ctx context.Context, n int) (bool, error) {
		if done.Add(1) > int64(t.c.churn) {
			return false, nil
		}
		rev, err := u.one(ctx, n)
		return rev > 0, err
	})
	return err
}
