package hostile

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// methods lists every RPC of etcd's services, and whether it answers with a stream.
func methods() map[string]grpc.StreamDesc {
	list := map[string]grpc.StreamDesc{}
	for _, service := range []grpc.ServiceDesc{
		pb.KV_ServiceDesc, pb.Watch_ServiceDesc, pb.Lease_ServiceDesc,
		pb.Cluster_ServiceDesc, pb.Maintenance_ServiceDesc, pb.Auth_ServiceDesc,
	} {
		for _, m := range service.Methods {
			list["/"+service.ServiceName+"/"+m.MethodName] = grpc.StreamDesc{}
		}
		for _, s := range service.Streams {
			list["/"+service.ServiceName+"/"+s.StreamName] = s
		}
	}
	return list
}

// sendRaw sends bytes to a method and waits for the first answer or the end of the call.
func sendRaw(ctx context.Context, conn *grpc.ClientConn, method string, desc grpc.StreamDesc, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, promptly)
	defer cancel()
	stream, err := conn.NewStream(ctx, &desc, method, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(raw); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if method == pb.Watch_Watch_FullMethodName {
		return nil // the server does not answer a request that it does not understand, and keeps the stream open
	}
	var answer []byte
	return stream.RecvMsg(&answer)
}

// Bytes that are not protobuf, and valid requests with flipped bits, to every RPC.
func TestGarbledMessages(t *testing.T) {
	v := startVictim(t)
	r := random(t)
	conn := dial(t, v.Endpoint())
	for method, desc := range methods() {
		for i := range 60 {
			raw := garbage(r)
			if i%2 == 0 {
				raw = flipped(r)
			}
			err := sendRaw(t.Context(), conn, method, desc, raw)
			switch status.Code(err) {
			case codes.DeadlineExceeded, codes.Unavailable:
				t.Fatalf("%s stalls or drops the connection at %x: %v", method, raw, err)
			}
		}
		v.healthy(t)
	}
}

// flipped returns a valid request, mostly of another method, with a few bits changed.
func flipped(r *rand.Rand) []byte {
	valid := []proto.Message{
		&pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("b"), Limit: 10, Revision: 3, SortOrder: 1, SortTarget: 2},
		&pb.PutRequest{Key: []byte("a"), Value: []byte("value"), PrevKv: true},
		&pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte("a"), TargetUnion: &pb.Compare_Version{Version: 1}}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a")}}}},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{}}}},
		},
		&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
			Key: []byte("a"), StartRevision: 1,
		}}},
		&pb.LeaseGrantRequest{ID: 5, TTL: 100},
		&pb.MemberAddRequest{PeerURLs: []string{"http://127.0.0.1:1"}},
	}
	raw, err := proto.Marshal(valid[r.IntN(len(valid))])
	if err != nil {
		panic(err) // the requests above are valid
	}
	for range 1 + r.IntN(4) {
		raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
	}
	return raw
}

// Strings that are not UTF-8, which protobuf does not allow.
func TestInvalidStrings(t *testing.T) {
	v := startVictim(t)
	conn := dial(t, v.Endpoint())
	bad := []byte{0x0a, 0x04, 0xff, 0xfe, 0xc3, 0x28} // field 1, four bytes
	for _, method := range []string{
		pb.Auth_Authenticate_FullMethodName, pb.Cluster_MemberAdd_FullMethodName,
		pb.Auth_UserAdd_FullMethodName,
	} {
		if err := sendRaw(t.Context(), conn, method, grpc.StreamDesc{}, bad); err == nil ||
			status.Code(err) == codes.DeadlineExceeded {
			t.Errorf("%s: %v, want a prompt refusal", method, err)
		}
	}
	v.healthy(t)
}

// Transactions nested far deeper than any real one, within the message limit.
func TestDeepNesting(t *testing.T) {
	v := startVictim(t)
	conn := dial(t, v.Endpoint())
	for _, depth := range []int{127, 128, 1_000, 4_000, 9_999, 50_000} {
		err := sendRaw(t.Context(), conn, pb.KV_Txn_FullMethodName, grpc.StreamDesc{}, nested(depth))
		switch {
		case depth < 128 && err != nil:
			t.Errorf("depth %d, which the limit of operations allows: %v", depth, err)
		case depth >= 1_000 && (err == nil || status.Code(err) == codes.DeadlineExceeded ||
			status.Code(err) == codes.Unavailable):
			t.Errorf("depth %d: %v, want a prompt refusal", depth, err)
		}
		v.healthy(t)
	}
}

// Requests that fit into a message and yet ask for too much.
func TestGreedyRequests(t *testing.T) {
	v := startVictim(t)
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	wide := &pb.TxnRequest{}
	for range 128 {
		sub := &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{}}
		for range 128 {
			sub.RequestTxn.Success = append(sub.RequestTxn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}},
			}})
		}
		wide.Success = append(wide.Success, &pb.RequestOp{Request: sub})
	}
	if _, err := v.kv.Txn(ctx, wide); status.Code(err) != codes.InvalidArgument {
		t.Errorf("128 transactions of 128 ranges: %v, want them refused", err)
	}
	v.healthy(t)
	long := make([]byte, 1<<20)
	if _, err := v.kv.Put(ctx, &pb.PutRequest{Key: long}); err != nil && status.Code(err) != codes.InvalidArgument {
		t.Errorf("a key of 1 MiB: %v", err)
	}
	v.healthy(t)
	for _, size := range []int{2 << 20, 64 << 20} {
		_, err := v.kv.Put(ctx, &pb.PutRequest{Key: []byte("a"), Value: make([]byte, size)})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message of %d bytes: %v, want ResourceExhausted", size, err)
		}
		v.healthy(t)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("took too long")
	}
}
