package sidebyside

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// countdown is by how many seconds a lease's remaining time may be below its granted one before the difference counts:
// the tests grant far longer leases than they run.
const countdown = 300

// normal returns a copy of an answer without what legitimately differs between two servers.
func normal(m proto.Message) proto.Message {
	if m == nil {
		return nil
	}
	m = proto.Clone(m)
	dropIdentity(m.ProtoReflect())
	switch a := m.(type) {
	case *pb.LeaseTimeToLiveResponse:
		if a.TTL > a.GrantedTTL-countdown && a.TTL <= a.GrantedTTL {
			a.TTL = a.GrantedTTL
		}
		slices.SortFunc(a.Keys, bytes.Compare) // etcd keeps them in a map
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(a.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	}
	return m
}

// dropIdentity clears the cluster, member and term numbers in every header within m.
func dropIdentity(m protoreflect.Message) {
	if h, ok := m.Interface().(*pb.ResponseHeader); ok {
		h.ClusterId, h.MemberId, h.RaftTerm = 0, 0, 0
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() || fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				dropIdentity(v.List().Get(i).Message())
			}
		default:
			dropIdentity(v.Message())
		}
		return true
	})
}

// loosen puts equal elements of the sorted ranges within an answer into a fixed order, as etcd leaves their order open.
// Of equal elements that a limit cuts through it keeps only the number. It changes m.
func loosen(req, m proto.Message) {
	switch a := m.(type) {
	case *pb.RangeResponse:
		loosenRange(req.(*pb.RangeRequest), a)
	case *pb.TxnResponse:
		ops := req.(*pb.TxnRequest).Success
		if !a.Succeeded {
			ops = req.(*pb.TxnRequest).Failure
		}
		for i, op := range ops {
			if i >= len(a.Responses) {
				return
			}
			if r, sub := op.GetRequestRange(), a.Responses[i].GetResponseRange(); r != nil && sub != nil {
				loosen(r, sub)
			}
			if r, sub := op.GetRequestTxn(), a.Responses[i].GetResponseTxn(); r != nil && sub != nil {
				loosen(r, sub)
			}
		}
	}
}

func loosenRange(r *pb.RangeRequest, a *pb.RangeResponse) {
	if r.SortTarget == pb.RangeRequest_KEY {
		return
	}
	order := func(x, y *mvccpb.KeyValue) int {
		switch r.SortTarget {
		case pb.RangeRequest_VERSION:
			return cmp.Compare(x.Version, y.Version)
		case pb.RangeRequest_CREATE:
			return cmp.Compare(x.CreateRevision, y.CreateRevision)
		case pb.RangeRequest_MOD:
			return cmp.Compare(x.ModRevision, y.ModRevision)
		default:
			return bytes.Compare(x.Value, y.Value) // all equal when keys_only has dropped them
		}
	}
	for start := 0; start < len(a.Kvs); {
		end := start + 1
		for end < len(a.Kvs) && order(a.Kvs[start], a.Kvs[end]) == 0 {
			end++
		}
		equals := a.Kvs[start:end]
		slices.SortFunc(equals, func(x, y *mvccpb.KeyValue) int { return bytes.Compare(x.Key, y.Key) })
		if a.More && end == len(a.Kvs) {
			for i := range equals {
				equals[i] = &mvccpb.KeyValue{}
			}
		}
		start = end
	}
}
