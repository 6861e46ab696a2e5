package sidebyside

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Corner cases of transactions that random sequences seldom reach: one key changes more than once at one revision.
// etcd's check for that overlooks a range without an end, and a deletion in one nested transaction after a put in
// another.
func TestOneKeyTwiceInOneRevision(t *testing.T) {
	etcd, target := startBoth(t)
	p := newPlayer(etcd, target)
	ctx := within(t)
	streams, err := openPair(t.Context(), etcd, target, false)
	if err != nil {
		t.Fatal(err)
	}
	all := &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true}
	if _, err := streams.create(ctx, all); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*pb.TxnRequest{
		success(putOp("b"), putOp("c")),
		success(deleteOp("a", "\x00"), putOp("b")),                                                // deleted, then put
		success(deleteOp("a", "\x00"), putOp("b"), txnOp(deleteOp("b", "\x00")), rangeOp("b", 0)), // and deleted again
		success(deleteOp("a", "\x00"), putOp("new")),
		success(txnOp(putOp("b")), txnOp(deleteOp("b", ""))),
		success(txnOp(putOp("b"), putOp("d")), txnOp(deleteOp("b", "e")), txnOp(deleteOp("b", "e"))),
		success(putOp("b"), rangeOp("b", 0), txnOp(rangeOp("b", 0))),
		success(deleteOp("b", ""), deleteOp("b", ""), deleteOp("b", "\x00"), rangeOp("b", 0)),
		success(putOp("b"), deleteOp("c", "b")), // an end before the key: nothing
		success(putOp("b"), deleteOp("b", "b")),
		success(putOp("b"), deleteOp("a", "b"), deleteOp("b\x00", "c")), // all around it
		success(putOp("b"), deleteOp("\x00", "\x00")),
		success(deleteOp("b", "b\x00"), putOp("b")),
		success(txnOp(), txnOp(txnOp(txnOp()))),
		success(),
		{
			Compare: []*pb.Compare{{Key: []byte("b"), TargetUnion: &pb.Compare_Version{Version: 99}}},
			Success: []*pb.RequestOp{putOp("x")},
			Failure: []*pb.RequestOp{txnOp(putOp("x")), txnOp(putOp("y"), deleteOp("z", "")), rangeOp("x", 0)},
		},
	} {
		if err := p.ask(ctx, txnCall(r)); err != nil {
			t.Error(err)
		}
	}
	for rev := range p.rev + 1 {
		if err := p.ask(ctx, rangeCall(&pb.RangeRequest{
			Key: []byte{0}, RangeEnd: []byte{0},
			Revision: rev,
		})); err != nil {
			t.Error(err)
		}
	}
	past := &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true, StartRevision: 1}
	if _, err := streams.create(ctx, past); err != nil {
		t.Fatal(err)
	}
	if err := p.caughtUpAndRest(ctx, streams); err != nil {
		t.Error(err)
	}
	// Compaction keeps the one live row, in whatever order the rows came.
	for rev := int64(2); rev < p.rev; rev += 3 {
		for _, c := range []call{
			compactCall(&pb.CompactionRequest{Revision: rev, Physical: true}),
			rangeCall(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: rev}),
			rangeCall(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}),
		} {
			if err := p.ask(ctx, c); err != nil {
				t.Error(err)
			}
		}
	}
}
