package bitrot

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	prefix = "/registry/"
	leases = 3
)

// truth is everything that was written.
type truth struct {
	events    []*mvccpb.Event // in order, with the previous version
	revision  int64
	compacted int64
	live      map[string]*mvccpb.KeyValue
}

// fill writes operations to an empty server, and compacts halfway.
func fill(t *testing.T, c *clientv3.Client, rng *rand.Rand, operations int, halfway func()) *truth {
	t.Helper()
	ctx := t.Context()
	tr := &truth{revision: 1, live: map[string]*mvccpb.KeyValue{}}
	var granted []clientv3.LeaseID
	for range leases {
		l, err := c.Grant(ctx, 24*3600)
		if err != nil {
			t.Fatal(err)
		}
		granted = append(granted, l.ID)
	}
	for i := range operations {
		if i == operations/2 {
			halfway()
			tr.compacted = tr.revision - 50
			if _, err := c.Compact(ctx, tr.compacted, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
		}
		var ops []clientv3.Op
		var changes []*mvccpb.KeyValue // without a value for a delete
		many := 1
		if rng.IntN(10) == 0 {
			many += rng.IntN(4)
		}
		for range many {
			kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%s%s/ns%d/object-%03d", prefix,
				[]string{"pods", "configmaps", "leases"}[rng.IntN(3)], rng.IntN(5), rng.IntN(25))}
			if rng.IntN(80) == 0 {
				kv.Key = append(kv.Key, bytes.Repeat([]byte("long"), 700)...)
			}
			if slices.ContainsFunc(changes, func(o *mvccpb.KeyValue) bool { return bytes.Equal(o.Key, kv.Key) }) {
				continue
			}
			if tr.live[string(kv.Key)] != nil && rng.IntN(4) == 0 {
				ops, changes = append(ops, clientv3.OpDelete(string(kv.Key))), append(changes, kv)
				continue
			}
			var with []clientv3.OpOption
			if rng.IntN(4) == 0 {
				id := granted[rng.IntN(leases)]
				kv.Lease, with = int64(id), append(with, clientv3.WithLease(id))
			}
			kv.Value = value(rng)
			ops, changes = append(ops, clientv3.OpPut(string(kv.Key), string(kv.Value), with...)), append(changes, kv)
		}
		res, err := c.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if tr.revision++; res.Header.Revision != tr.revision {
			t.Fatalf("revision %d, want %d", res.Header.Revision, tr.revision)
		}
		for _, kv := range changes {
			tr.apply(kv)
		}
	}
	return tr
}

func (tr *truth) apply(kv *mvccpb.KeyValue) {
	kv.ModRevision = tr.revision
	before := tr.live[string(kv.Key)]
	ev := &mvccpb.Event{Kv: kv, PrevKv: before}
	if kv.Value == nil {
		ev.Type = mvccpb.DELETE
		delete(tr.live, string(kv.Key))
	} else {
		kv.CreateRevision, kv.Version = tr.revision, 1
		if before != nil {
			kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
		}
		tr.live[string(kv.Key)] = kv
	}
	tr.events = append(tr.events, ev)
}

// value returns 100 bytes to 20 KiB, mostly few.
func value(rng *rand.Rand) []byte {
	v := make([]byte, int(100*math.Exp(rng.Float64()*rng.Float64()*math.Log(204.8))))
	for i := range v {
		v[i] = byte(rng.Uint32())
	}
	return v
}

// at returns the live keys of a range at a revision, in order.
func (tr *truth) at(revision int64, from, to string) []*mvccpb.KeyValue {
	live := map[string]*mvccpb.KeyValue{}
	for _, ev := range tr.events {
		if ev.Kv.ModRevision > revision {
			break
		}
		if key := string(ev.Kv.Key); key >= from && key < to {
			live[key] = ev.Kv
			if ev.Type == mvccpb.DELETE {
				delete(live, key)
			}
		}
	}
	var out []*mvccpb.KeyValue
	for _, key := range slices.Sorted(maps.Keys(live)) {
		out = append(out, live[key])
	}
	return out
}

// since returns the events of a range from a revision on.
func (tr *truth) since(revision int64, from, to string) (out []*mvccpb.Event) {
	for _, ev := range tr.events {
		if key := string(ev.Kv.Key); ev.Kv.ModRevision >= revision && key >= from && key < to {
			out = append(out, ev)
		}
	}
	return out
}

// keys returns every key that was ever written.
func (tr *truth) keys() []string {
	all := map[string]bool{}
	for _, ev := range tr.events {
		all[string(ev.Kv.Key)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// dial connects to an endpoint.
func dial(ctx context.Context, endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Context: ctx, MaxCallRecvMsgSize: 64 << 20, Logger: zap.NewNop(),
	})
}
