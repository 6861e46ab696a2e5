package etcdshim

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// raftOverhead is what etcd's proposal adds to the request in it: its header with an id, and the prefixes of both.
const raftOverhead = 17

// fits refuses a write of wire bytes whose proposal would exceed etcd's limit.
func fits(wire, maxBytes int) error {
	if wire+raftOverhead > maxBytes {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return nil
}

// etcd's lock and election services propose the transactions below. Here they are only measured.

func locking(prefix, key []byte, lease int64) *pb.TxnRequest {
	end := append([]byte{}, prefix...)
	first := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: prefix, RangeEnd: end, Limit: 1,
		SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE,
	}}}
	t := campaigning(key, nil, lease)
	t.Success, t.Failure = append(t.Success, first), append(t.Failure, first)
	return t
}

func campaigning(key, value []byte, lease int64) *pb.TxnRequest {
	t := proclaiming(key, value, 0, lease)
	t.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}}
	return t
}

func proclaiming(key, value []byte, place, lease int64) *pb.TxnRequest {
	return ifCreated(key, place, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease},
	}})
}

func resigning(key []byte, place int64) *pb.TxnRequest {
	return ifCreated(key, place, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: key},
	}})
}

func ifCreated(key []byte, revision int64, then *pb.RequestOp) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Target: pb.Compare_CREATE, Key: key,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision},
		}},
		Success: []*pb.RequestOp{then},
	}
}
