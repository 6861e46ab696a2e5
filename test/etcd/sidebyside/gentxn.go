package sidebyside

import (
	"bytes"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// txnRequest draws a transaction. Most put each key at most once: a transaction with duplicate keys is refused as a
// whole and tests nothing else.
func (g *gen) txnRequest() *pb.TxnRequest {
	t := &txnGen{gen: g, depth: 3, nextKey: g.IntN(len(keys)), careful: g.often(85)}
	r := t.txn()
	if deletesFromKey(r) {
		dropIgnores(r)
	}
	return r
}

// deletesFromKey reports whether r deletes a range that has no end. etcd does not notice that such a range overlaps
// with a put, and accepts both.
func deletesFromKey(r *pb.TxnRequest) bool {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if d := op.GetRequestDeleteRange(); d != nil && string(d.RangeEnd) == "\x00" {
			return true
		}
		if sub := op.GetRequestTxn(); sub != nil && deletesFromKey(sub) {
			return true
		}
	}
	return false
}

// dropIgnores clears ignore_value and ignore_lease in r: on a key that the same transaction has deleted before, they
// crash etcd.
func dropIgnores(r *pb.TxnRequest) {
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if p := op.GetRequestPut(); p != nil {
			p.IgnoreValue, p.IgnoreLease = false, false
		}
		if sub := op.GetRequestTxn(); sub != nil {
			dropIgnores(sub)
		}
	}
}

type txnGen struct {
	*gen
	depth   int
	nextKey int  // puts of a careful transaction cycle through keys from here
	careful bool // about duplicate keys
}

func (t *txnGen) txn() *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for range t.size(3) {
		r.Compare = append(r.Compare, t.compare())
	}
	for range t.size(4) {
		r.Success = append(r.Success, t.op())
	}
	for range t.size(3) {
		r.Failure = append(r.Failure, t.op())
	}
	return r
}

// size draws a number of operations: up to most, and occasionally close to the servers' limit.
func (t *txnGen) size(most int) int {
	if t.often(1) {
		return maxOps - 1 + t.IntN(3)
	}
	return t.IntN(most + 1)
}

func (t *txnGen) op() *pb.RequestOp {
	n := t.IntN(100)
	switch {
	case n < 40:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: t.put()}}
	case n < 65:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: t.rangeInside()}}
	case n < 80:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: t.delete()}}
	case n < 99 && t.depth > 0:
		t.depth--
		sub := t.txn()
		t.depth++
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: sub}}
	case n < 99:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: t.rangeInside()}}
	default:
		return &pb.RequestOp{} // refused
	}
}

// rangeInside draws a range that is mostly valid and at the current revision: any other fails the whole transaction.
func (t *txnGen) rangeInside() *pb.RangeRequest {
	r := t.rangeRequest()
	if t.often(90) {
		r.Revision = pick(t.gen, 0, 0, 0, max(t.compacted, t.rev-int64(t.IntN(5))))
	}
	if t.often(50) {
		r.MinModRevision, r.MaxModRevision, r.MinCreateRevision, r.MaxCreateRevision = 0, 0, 0, 0
	}
	return r
}

func (t *txnGen) put() *pb.PutRequest {
	r := t.putRequest()
	if t.often(70) { // fails the transaction when the key does not exist
		r.IgnoreValue, r.IgnoreLease = false, false
	}
	if t.careful {
		r.Key = []byte(keys[t.nextKey%len(keys)])
		t.nextKey++
		if t.often(70) { // an unknown lease fails the whole transaction
			r.Lease = 0
		}
	}
	return r
}

// delete draws a deletion. In a careful transaction it deletes a single key, after those that the transaction puts.
func (t *txnGen) delete() *pb.DeleteRangeRequest {
	r := t.deleteRequest()
	if t.careful && t.often(90) {
		key := []byte(keys[t.nextKey%len(keys)])
		t.nextKey++
		r.Key, r.RangeEnd = key, nil
		if t.often(30) {
			r.RangeEnd = append(bytes.Clone(key), 0) // the same single key, written as a range
		}
	}
	return r
}

func (t *txnGen) compare() *pb.Compare {
	c := &pb.Compare{
		Key:    t.key(),
		Result: pb.Compare_CompareResult(t.IntN(4)),
		Target: pb.Compare_CompareTarget(t.IntN(5)),
	}
	if t.often(30) {
		c.Key, c.RangeEnd = t.span()
	}
	if t.often(3) {
		c.Result = pick[pb.Compare_CompareResult](t.gen, 4, 99, -1)
	}
	if t.often(3) {
		c.Target = pick[pb.Compare_CompareTarget](t.gen, 5, 99, -1)
	}
	target := c.Target
	if t.often(5) { // a value that does not fit the comparison's target
		target = pb.Compare_CompareTarget(t.IntN(5))
	}
	if t.often(5) { // or none
		return c
	}
	recent := t.rev - int64(t.IntN(20))
	switch target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: int64(t.IntN(6)) - 1}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: pick(t.gen, 0, recent)}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: pick(t.gen, 0, recent)}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: t.value()}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: pick(t.gen, 0, t.leaseID())}
	}
	return c
}
