package sidebyside

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// txnRequest draws a transaction. Most keep to one put for each key, as one that does not is
// refused whole and tests nothing else.
func (g *gen) txnRequest() *pb.TxnRequest {
	t := &txnGen{gen: g, depth: 3, nextKey: g.IntN(len(keys)), careful: g.often(85)}
	return t.txn()
}

type txnGen struct {
	*gen
	depth   int
	nextKey int  // puts of a careful transaction go round the alphabet from here
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

// size draws how many there are of something: up to most, seldom just around the servers' limit.
func (t *txnGen) size(most int) int {
	if t.often(2) {
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
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: t.rangeRequest()}}
	case n < 80:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: t.delete()}}
	case n < 99 && t.depth > 0:
		t.depth--
		sub := t.txn()
		t.depth++
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: sub}}
	case n < 99:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: t.rangeRequest()}}
	default:
		return &pb.RequestOp{} // refused
	}
}

func (t *txnGen) put() *pb.PutRequest {
	r := t.putRequest()
	if t.careful {
		r.Key = []byte(keys[t.nextKey%len(keys)])
		t.nextKey++
		if t.often(70) { // an unknown lease fails the whole transaction
			r.Lease = 0
		}
	}
	return r
}

// delete draws the deletion of a single key behind those that the transaction puts, if it is
// careful.
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
	if t.often(5) { // a union that does not fit the target
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
