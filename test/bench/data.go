package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	pageSize   = 500 // kube-apiserver's chunk
	perSpace   = 100 // objects in a namespace
	objectsDir = "/registry/pods/"
	createdDir = "/registry/events/"
)

// objectsEnd is the end of the range of all objects.
var objectsEnd = []byte("/registry/pods0")

// objectKey is the key of object i; keys sort as their numbers do.
func objectKey(i int) []byte {
	return fmt.Appendf(nil, "%snamespace-%06d/pod-%09d", objectsDir, i/perSpace, i)
}

// createdKey is the key of the n-th object that the create phases make.
func createdKey(n int64) []byte {
	return fmt.Appendf(nil, "%snamespace-%06d/event-%012d", createdDir, n%1000, n)
}

// newValue returns n random bytes; stampValue marks them with an object's number.
func newValue(n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(rand.Uint32())
	}
	return v
}

func stampValue(v []byte, n int) { binary.BigEndian.PutUint64(v, uint64(n)) }

// txn is kube-apiserver's conditional transaction, prepared once and filled in for each call: one compare of
// mod_revision, one write, and a read of the key if the compare fails.
type txn struct {
	req pb.TxnRequest
	cmp *pb.Compare
	mod *pb.Compare_ModRevision
	put *pb.PutRequest
	del *pb.DeleteRangeRequest
	els *pb.RangeRequest
}

func newTxn(put, orElse bool) *txn {
	t := &txn{mod: &pb.Compare_ModRevision{}}
	t.cmp = &pb.Compare{Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, TargetUnion: t.mod}
	t.req.Compare = []*pb.Compare{t.cmp}
	if put {
		t.put = &pb.PutRequest{}
		t.req.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: t.put}}}
	} else {
		t.del = &pb.DeleteRangeRequest{}
		t.req.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: t.del}}}
	}
	if orElse {
		t.els = &pb.RangeRequest{}
		t.req.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: t.els}}}
	}
	return t
}

// fill sets the key, the revision expected and the value.
func (t *txn) fill(key []byte, mod int64, value []byte) {
	t.cmp.Key, t.mod.ModRevision = key, mod
	if t.put != nil {
		t.put.Key, t.put.Value = key, value
	} else {
		t.del.Key = key
	}
	if t.els != nil {
		t.els.Key = key
	}
}
