package storage

import (
	"math"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

func TestDirectoryRequest(t *testing.T) {
	d := directory{prefix: "/dir", base: 100}
	txn := func(key, end string, revision, lease int64) *etcdserverpb.TxnRequest {
		get := &etcdserverpb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end), Revision: revision, Limit: 7}
		inner := &etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{
			{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: get}},
		}}
		return &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{
				{Key: []byte(key), TargetUnion: &etcdserverpb.Compare_ModRevision{ModRevision: revision}},
				{Key: []byte(key), TargetUnion: &etcdserverpb.Compare_CreateRevision{CreateRevision: 0}},
				{Key: []byte(key), TargetUnion: &etcdserverpb.Compare_Version{Version: 3}},
			},
			Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestTxn{RequestTxn: inner}}},
			Failure: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestPut{
				RequestPut: &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte("v"), Lease: lease},
			}}},
		}
	}
	for _, test := range []struct{ client, server proto.Message }{
		{txn("/a", "/b", 5, 9), txn("/dir/a", "/dir/b", 105, 9)},
		{txn("/a", "\x00", 0, 0), txn("/dir/a", "/dis", 0, 0)},
		{txn("/a", "", math.MaxInt64, 0), txn("/dir/a", "", math.MaxInt64, 0)},
		{&etcdserverpb.CompactionRequest{Revision: 1}, &etcdserverpb.CompactionRequest{Revision: 101}},
	} {
		before := proto.Clone(test.client)
		if got := d.request(test.client); !proto.Equal(got, test.server) {
			t.Errorf("%v goes out as %v, want %v", test.client, got, test.server)
		}
		if !proto.Equal(test.client, before) {
			t.Errorf("the client's own request has become %v, was %v", test.client, before)
		}
	}
}

func TestDirectoryResponse(t *testing.T) {
	d := directory{prefix: "/dir", base: 100}
	response := func(prefix string, base int64) *etcdserverpb.WatchResponse {
		kv := &mvccpb.KeyValue{
			Key: []byte(prefix + "/a"), CreateRevision: base + 2, ModRevision: base + 3, Version: 2,
			Value: []byte("v"),
		}
		return &etcdserverpb.WatchResponse{
			Header:          &etcdserverpb.ResponseHeader{Revision: base + 4, RaftTerm: 6},
			WatchId:         8,
			CompactRevision: base + 1,
			Events:          []*mvccpb.Event{{Type: mvccpb.Event_PUT, Kv: kv, PrevKv: kv}},
		}
	}
	got := response("/dir", 100)
	got.Events[0].PrevKv = proto.Clone(got.Events[0].Kv).(*mvccpb.KeyValue)
	d.fromServer(got.ProtoReflect())
	if want := response("", 0); !proto.Equal(got, want) {
		t.Errorf("the client sees %v, want %v", got, want)
	}
}
