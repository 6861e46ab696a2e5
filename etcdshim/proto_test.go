package etcdshim

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/sqlstore/sqlstore/internal/store"
)

// The codec's translations by way of protobuf's generated types, which the tests compare with the codec's own.

func protoRange(r *pb.RangeRequest) *store.RangeRequest {
	return &store.RangeRequest{
		Key: r.Key, End: r.RangeEnd, Limit: r.Limit, Revision: r.Revision,
		Order: store.SortOrder(r.SortOrder), Target: store.SortTarget(r.SortTarget),
		Serializable: r.Serializable, KeysOnly: r.KeysOnly, CountOnly: r.CountOnly,
		MinModRev: r.MinModRevision, MaxModRev: r.MaxModRevision, MinCreateRev: r.MinCreateRevision,
		MaxCreateRev: r.MaxCreateRevision,
	}
}

func protoPut(r *pb.PutRequest) *store.PutRequest {
	return &store.PutRequest{
		Key: r.Key, Value: r.Value, Lease: r.Lease, PrevKV: r.PrevKv, IgnoreValue: r.IgnoreValue,
		IgnoreLease: r.IgnoreLease,
	}
}

func protoDelete(r *pb.DeleteRangeRequest) *store.DeleteRequest {
	return &store.DeleteRequest{Key: r.Key, End: r.RangeEnd, PrevKV: r.PrevKv}
}

func protoTxn(r *pb.TxnRequest) *store.Txn {
	t := &store.Txn{}
	for _, c := range r.Compare {
		t.Compare = append(t.Compare, protoCompare(c))
	}
	for _, op := range r.Success {
		t.Success = append(t.Success, protoOp(op))
	}
	for _, op := range r.Failure {
		t.Failure = append(t.Failure, protoOp(op))
	}
	return t
}

func protoOp(r *pb.RequestOp) store.Op {
	switch r := r.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return store.Op{Range: protoRange(r.RequestRange)}
	case *pb.RequestOp_RequestPut:
		return store.Op{Put: protoPut(r.RequestPut)}
	case *pb.RequestOp_RequestDeleteRange:
		return store.Op{Delete: protoDelete(r.RequestDeleteRange)}
	case *pb.RequestOp_RequestTxn:
		return store.Op{Txn: protoTxn(r.RequestTxn)}
	}
	return store.Op{}
}

func protoCompare(r *pb.Compare) store.Compare {
	c := store.Compare{
		Key: r.Key, End: r.RangeEnd, Target: store.CompareTarget(r.Target),
		Result: store.CompareResult(r.Result),
	}
	switch u := r.TargetUnion.(type) {
	case *pb.Compare_Version:
		if r.Target == pb.Compare_VERSION {
			c.Number = u.Version
		}
	case *pb.Compare_CreateRevision:
		if r.Target == pb.Compare_CREATE {
			c.Number = u.CreateRevision
		}
	case *pb.Compare_ModRevision:
		if r.Target == pb.Compare_MOD {
			c.Number = u.ModRevision
		}
	case *pb.Compare_Value:
		if r.Target == pb.Compare_VALUE {
			c.Value = u.Value
		}
	case *pb.Compare_Lease:
		if r.Target == pb.Compare_LEASE {
			c.Number = u.Lease
		}
	}
	return c
}

func (id *identity) proto(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: id.cluster, MemberId: id.member, Revision: revision, RaftTerm: id.term}
}

func protoRows(rows []*store.Row) (kvs []*mvccpb.KeyValue) {
	for _, r := range rows {
		kvs = append(kvs, keyValue(r))
	}
	return kvs
}

func (r *rangeReply) proto() *pb.RangeResponse {
	resp := &pb.RangeResponse{Kvs: protoRows(r.res.Rows), More: r.res.More, Count: r.res.Count}
	if r.id != nil {
		resp.Header = r.id.proto(r.res.Revision)
	}
	return resp
}

func (r *putReply) proto() *pb.PutResponse {
	resp := &pb.PutResponse{Header: r.id.proto(r.res.Revision)}
	if r.res.Prev != nil {
		resp.PrevKv = keyValue(r.res.Prev)
	}
	return resp
}

func (r *deleteReply) proto() *pb.DeleteRangeResponse {
	return &pb.DeleteRangeResponse{
		Header: r.id.proto(r.res.Revision), Deleted: r.res.Deleted,
		PrevKvs: protoRows(r.res.Prev),
	}
}

func (r *txnReply) proto() *pb.TxnResponse {
	resp := &pb.TxnResponse{Header: r.id.proto(r.res.Revision), Succeeded: r.res.Succeeded}
	for i := range r.res.Results {
		op := &pb.ResponseOp{}
		switch res := &r.res.Results[i]; {
		case res.Range != nil:
			op.Response = &pb.ResponseOp_ResponseRange{ResponseRange: (&rangeReply{innerHeader, res.Range}).proto()}
		case res.Put != nil:
			op.Response = &pb.ResponseOp_ResponsePut{ResponsePut: (&putReply{innerHeader, res.Put}).proto()}
		case res.Delete != nil:
			op.Response = &pb.ResponseOp_ResponseDeleteRange{
				ResponseDeleteRange: (&deleteReply{innerHeader, res.Delete}).proto(),
			}
		case res.Txn != nil:
			inner := (&txnReply{innerHeader, res.Txn}).proto()
			inner.Header = &pb.ResponseHeader{}
			op.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
		}
		resp.Responses = append(resp.Responses, op)
	}
	return resp
}

func (r *watchReply) proto() *pb.WatchResponse {
	resp := &pb.WatchResponse{
		Header: r.id.proto(r.revision), WatchId: r.watch, Created: r.created, Canceled: r.canceled,
		CompactRevision: r.compact, CancelReason: r.reason, Fragment: r.fragment,
	}
	for _, e := range r.events {
		ev := &mvccpb.Event{Kv: keyValue(e.Row)}
		if e.Row.Deleted {
			ev.Type = mvccpb.Event_DELETE
			ev.Kv = &mvccpb.KeyValue{Key: e.Row.Key, ModRevision: e.Row.ModRevision}
		}
		if e.Prev != nil {
			ev.PrevKv = keyValue(e.Prev)
		}
		resp.Events = append(resp.Events, ev)
	}
	return resp
}
