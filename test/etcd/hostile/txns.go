package hostile

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

func txnAbuses() []abuse {
	return []abuse{
		{
			name: "reading transactions, as wide as allowed", short: 20, full: 400, objects: 5_000,
			attack: sendTxns(wideReads),
		},
		{
			name: "writing transactions, as wide as allowed", short: 300, full: 10_000, keeps: 16 << 20,
			attack: sendTxns(wideWrites),
		},
		{
			name: "writing transactions that read everything", short: 8, full: 200, objects: 5_000, keeps: 4 << 20,
			attack: sendTxns(writesThatRead),
		},
		{name: "transactions, as deep as allowed", short: 300, full: 10_000, keeps: 4 << 20, attack: sendTxns(deep)},
		{name: "transactions, deeper than allowed", short: 100, full: 2_000, attack: tooDeep},
		// 3 GB, without a compaction
		{
			name: "puts of the greatest size", short: 100, full: 2_000, keeps: 64 << 20, peak: 768 << 20,
			args: []string{"--quota-backend-bytes", "8589934592"}, attack: bigPuts,
		},
		{name: "deletes of everything", short: 200, full: 5_000, objects: 1_000, attack: deletes},
	}
}

const ops = 128 // the default bound

// sendTxns sends the transactions that of makes, several at a time on each of a few connections, and discards the
// answers.
func sendTxns(of func(i int) *pb.TxnRequest) func(context.Context, *target, int) (int, error) {
	return func(ctx context.Context, t *target, n int) (int, error) {
		return spread(n, connections, func(c, n int) (int, error) {
			conn, err := t.grpc()
			if err != nil {
				return 0, err
			}
			defer conn.Close()
			return spread(n, 8, func(j, n int) (int, error) {
				for i := range n {
					var raw []byte
					err := conn.Invoke(ctx, pb.KV_Txn_FullMethodName, mustMarshal(of(c*1000+j*100+i)), &raw,
						grpc.ForceCodecV2(rawCodec{}))
					if err != nil && !refused(err) {
						return i, err
					}
				}
				return n, nil
			})
		})
	}
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func putOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key:   []byte(key),
		Value: []byte("value"), PrevKv: true,
	}}}
}

func wideReads(int) *pb.TxnRequest {
	txn := &pb.TxnRequest{}
	for range ops {
		txn.Success = append(txn.Success, rangeOp(everything))
	}
	return txn
}

func wideWrites(i int) *pb.TxnRequest {
	txn := &pb.TxnRequest{}
	for j := range ops {
		key := fmt.Sprintf("wide/%d/%d", i%16, j)
		txn.Compare = append(txn.Compare, &pb.Compare{
			Key: []byte(key), Target: pb.Compare_VERSION, Result: pb.Compare_NOT_EQUAL,
			TargetUnion: &pb.Compare_Version{Version: -1},
		})
		txn.Success = append(txn.Success, putOp(key))
	}
	return txn
}

func writesThatRead(i int) *pb.TxnRequest {
	txn := wideReads(i)
	txn.Success[0] = putOp("writes")
	return txn
}

func deep(i int) *pb.TxnRequest {
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{putOp(fmt.Sprintf("deep/%d", i%16))}}
	for range ops - 2 {
		txn = &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}}}
	}
	return txn
}

func tooDeep(ctx context.Context, t *target, n int) (int, error) {
	raws := [][]byte{nested(128), nested(1_000), nested(9_999), nested(50_000), nested(200_000)}
	return calls(t, n, func(conn *grpc.ClientConn, _, i int) error {
		var raw []byte
		return conn.Invoke(ctx, pb.KV_Txn_FullMethodName, raws[i%len(raws)], &raw, grpc.ForceCodecV2(rawCodec{}))
	})
}

// bigPuts puts values as large as a request may be, to the same few keys over and over.
func bigPuts(ctx context.Context, t *target, n int) (int, error) {
	value := make([]byte, 3<<19-1<<10)
	return calls(t, n, func(conn *grpc.ClientConn, c, _ int) error {
		_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: fmt.Append(nil, "big", c), Value: value})
		return err
	})
}

func deletes(ctx context.Context, t *target, n int) (int, error) {
	return calls(t, n, func(conn *grpc.ClientConn, _, _ int) error {
		everything := &pb.DeleteRangeRequest{Key: []byte("object"), RangeEnd: []byte("objecu"), PrevKv: true}
		_, err := pb.NewKVClient(conn).DeleteRange(ctx, everything)
		return err
	})
}

// calls makes n calls over a few connections, one after the other on each of them: call gets the connection, its number
// and the call's. A call may be refused.
func calls(t *target, n int, call func(conn *grpc.ClientConn, c, i int) error) (int, error) {
	return spread(n, connections, func(c, n int) (int, error) {
		conn, err := t.grpc()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		for i := range n {
			if err := call(conn, c, i); err != nil && !refused(err) {
				return i, err
			}
		}
		return n, nil
	})
}
