package sidebyside

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const mib = 1 << 20

// refusal is a request and the error with which both servers must answer it.
type refusal struct {
	call    call
	code    codes.Code
	message string
}

// The errors that clients compare by code and text, except those of enabled authentication, which TestAuthSideBySide
// covers, and of a database that does not answer.
func TestErrors(t *testing.T) {
	etcd, target := startBoth(t)
	prepare(t, etcd)
	prepare(t, target)
	for _, r := range refusals() {
		t.Run(r.call.method+" "+r.message, func(t *testing.T) { checkRefusal(t, r, etcd, target) })
	}
	// No refused request may change anything.
	all := rangeCall(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if d := differ(all.req, etcd.ask(t.Context(), all), target.ask(t.Context(), all)); d != "" {
		t.Error(d)
	}
}

func checkRefusal(t *testing.T, r refusal, sides ...*side) {
	t.Helper()
	for _, s := range sides {
		got := s.ask(t.Context(), r.call)
		if got.err == nil {
			t.Errorf("%s answers %s, want an error: %.300s", s.name, got, r.call)
			continue
		}
		if st := status.Convert(got.err); st.Code() != r.code || st.Message() != r.message {
			t.Errorf("%s answers %s, want %s %q to %.300s", s.name, got, r.code, r.message, r.call)
		}
	}
}

// prepare brings a fresh server to revision 6, compacted at 4, with keys a and b and lease 7.
func prepare(t *testing.T, s *side) {
	t.Helper()
	calls := []call{grantCall(&pb.LeaseGrantRequest{ID: 7, TTL: 3600})}
	for _, key := range []string{"a", "b", "a", "b", "a"} {
		calls = append(calls, putCall(&pb.PutRequest{Key: []byte(key), Value: []byte("v")}))
	}
	for _, c := range append(calls, compactCall(&pb.CompactionRequest{Revision: 4})) {
		if got := s.ask(t.Context(), c); got.err != nil {
			t.Fatalf("%s: %s answers %s", c, s.name, got)
		}
	}
}

func refusals() []refusal {
	const (
		noKey     = "etcdserver: key is not provided"
		notFound  = "etcdserver: key not found"
		tooMany   = "etcdserver: too many operations in txn request"
		duplicate = "etcdserver: duplicate key given in txn request"
		badSort   = "etcdserver: invalid sort option"
		tooLarge  = "etcdserver: request is too large"
		compacted = "etcdserver: mvcc: required revision has been compacted"
		future    = "etcdserver: mvcc: required revision is a future revision"
		noLease   = "etcdserver: requested lease not found"
	)
	invalid := codes.InvalidArgument
	a := []byte("a")
	return []refusal{
		{rangeCall(&pb.RangeRequest{}), invalid, noKey},
		{rangeStreamCall(&pb.RangeRequest{RangeEnd: a}), invalid, noKey},
		{putCall(&pb.PutRequest{Value: a}), invalid, noKey},
		{deleteCall(&pb.DeleteRangeRequest{}), invalid, noKey},
		{txnCall(&pb.TxnRequest{Compare: []*pb.Compare{{}}}), invalid, noKey},
		{txnCall(success(putOp(""))), invalid, noKey},
		{txnCall(failure(deleteOp("", ""))), invalid, noKey}, // syntax is checked in both branches

		{txnCall(success(&pb.RequestOp{})), invalid, notFound},
		{txnCall(failure(&pb.RequestOp{})), invalid, notFound},
		{putCall(&pb.PutRequest{Key: []byte("missing"), IgnoreValue: true}), invalid, notFound},
		{putCall(&pb.PutRequest{Key: []byte("missing"), IgnoreLease: true}), invalid, notFound},
		{putCall(&pb.PutRequest{Key: a, Value: a, IgnoreValue: true}), invalid, "etcdserver: value is provided"},
		{putCall(&pb.PutRequest{Key: a, Lease: 7, IgnoreLease: true}), invalid, "etcdserver: lease is provided"},

		{txnCall(&pb.TxnRequest{Compare: compares(129)}), invalid, tooMany},
		{txnCall(success(puts(129)...)), invalid, tooMany},
		{txnCall(failure(puts(129)...)), invalid, tooMany},
		{txnCall(success(txnOp(puts(128)...))), invalid, tooMany}, // 1 of 128 is taken by the outer one
		{txnCall(success(putOp("a"), putOp("a"))), invalid, duplicate},
		{txnCall(success(putOp("a"), deleteOp("a", "b"))), invalid, duplicate},
		{txnCall(success(deleteOp("a", ""), putOp("a"))), invalid, duplicate},
		{txnCall(failure(putOp("a"), txnOp(putOp("a")))), invalid, duplicate},
		{txnCall(success(txnOp(deleteOp("a", "")), txnOp(putOp("a")))), invalid, duplicate},

		{rangeCall(&pb.RangeRequest{Key: a, SortOrder: 3}), invalid, badSort},
		{rangeCall(&pb.RangeRequest{Key: a, SortTarget: 5}), invalid, badSort},
		{rangeCall(&pb.RangeRequest{Key: a, SortTarget: -1}), invalid, badSort},
		{rangeStreamCall(&pb.RangeRequest{Key: a, SortTarget: 5}), invalid, badSort},
		{
			rangeStreamCall(&pb.RangeRequest{
				Key: a, SortTarget: pb.RangeRequest_MOD,
				SortOrder: pb.RangeRequest_DESCEND,
			}),
			codes.Unimplemented, "RangeStream does not support custom sort orders",
		},
		{
			rangeStreamCall(&pb.RangeRequest{Key: a, MinModRevision: 1}), codes.Unimplemented,
			"RangeStream does not support revision filters",
		},

		{putCall(&pb.PutRequest{Key: a, Value: make([]byte, 3*mib/2)}), invalid, tooLarge},
		{txnCall(success(bigPutOp("x", mib), bigPutOp("y", mib/2))), invalid, tooLarge},
		messageTooLarge(),

		{rangeCall(&pb.RangeRequest{Key: a, Revision: 3}), codes.OutOfRange, compacted},
		{rangeStreamCall(&pb.RangeRequest{Key: a, Revision: 3}), codes.OutOfRange, compacted},
		{txnCall(success(rangeOp("a", 3))), codes.OutOfRange, compacted},
		{hashKVCall(&pb.HashKVRequest{Revision: 3}), codes.OutOfRange, compacted},
		{compactCall(&pb.CompactionRequest{Revision: 4}), codes.OutOfRange, compacted},
		{compactCall(&pb.CompactionRequest{}), codes.OutOfRange, compacted},
		{rangeCall(&pb.RangeRequest{Key: a, Revision: 7}), codes.OutOfRange, future},
		{rangeStreamCall(&pb.RangeRequest{Key: a, Revision: 7}), codes.OutOfRange, future},
		{txnCall(success(putOp("a"), rangeOp("a", 7))), codes.OutOfRange, future},
		{hashKVCall(&pb.HashKVRequest{Revision: 7}), codes.OutOfRange, future},
		{compactCall(&pb.CompactionRequest{Revision: 7}), codes.OutOfRange, future},

		{putCall(&pb.PutRequest{Key: a, Lease: 99}), codes.NotFound, noLease},
		{txnCall(success(putOp("b"), &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key:   a,
			Lease: 99,
		}}})), codes.NotFound, noLease},
		{revokeCall(&pb.LeaseRevokeRequest{ID: 99}), codes.NotFound, noLease},
		{
			grantCall(&pb.LeaseGrantRequest{ID: 7, TTL: 60}), codes.FailedPrecondition,
			"etcdserver: lease already exists",
		},
		{
			grantCall(&pb.LeaseGrantRequest{ID: 8, TTL: 9_000_000_001}), codes.OutOfRange,
			"etcdserver: too large lease TTL",
		},

		{clusterCall("MemberRemove", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.cluster.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 99})
		}), codes.NotFound, "etcdserver: member not found"},
		{clusterCall("MemberUpdate", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.cluster.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 99, PeerURLs: []string{
				"http://127.0.0.1:1",
			}})
		}), codes.NotFound, "etcdserver: member not found"},
		{clusterCall("MemberPromote", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.cluster.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 99})
		}), codes.NotFound, "etcdserver: member not found"},
		{clusterCall("MemberPromote", func(ctx context.Context, s *side, self uint64) (proto.Message, error) {
			return s.cluster.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: self})
		}), codes.FailedPrecondition, "etcdserver: can only promote a learner member"},
		{clusterCall("MemberAdd", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.cluster.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"not a URL"}})
		}), invalid, "etcdserver: given member URLs are invalid"},
		{clusterCall("MoveLeader", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.maint.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: 99})
		}), codes.FailedPrecondition, "etcdserver: bad leader transferee"},
		{clusterCall("Authenticate", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "x"})
		}), codes.FailedPrecondition, "etcdserver: authentication is not enabled"},
		{clusterCall("AuthEnable", func(ctx context.Context, s *side, _ uint64) (proto.Message, error) {
			return s.auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
		}), codes.FailedPrecondition, "etcdserver: root user does not exist"},
	}
}

// clusterCall makes a call that goes to the leader and receives its member id.
func clusterCall(method string, send func(ctx context.Context, s *side, self uint64) (proto.Message, error)) call {
	return call{method, nil, func(ctx context.Context, s *side) (proto.Message, error) {
		leader, self, err := s.leader(ctx)
		if err != nil {
			return nil, err
		}
		return send(ctx, leader, self)
	}}
}

// messageTooLarge is a put that exceeds gRPC's message limit.
func messageTooLarge() refusal {
	r := &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 2*mib)}
	return refusal{
		putCall(r), codes.ResourceExhausted,
		fmt.Sprintf("grpc: received message larger than max (%d vs. 2097152)", proto.Size(r)),
	}
}

func success(ops ...*pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Success: ops} }
func failure(ops ...*pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Failure: ops} }

func txnOp(ops ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: success(ops...)}}
}

func putOp(key string) *pb.RequestOp { return bigPutOp(key, 1) }

func bigPutOp(key string, size int) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key:   []byte(key),
		Value: bytes.Repeat([]byte("v"), size),
	}}}
}

func deleteOp(key, end string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
		Key: []byte(key), RangeEnd: []byte(end),
	}}}
}

func rangeOp(key string, rev int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key:      []byte(key),
		Revision: rev,
	}}}
}

func puts(n int) []*pb.RequestOp {
	ops := make([]*pb.RequestOp, n)
	for i := range ops {
		ops[i] = putOp(fmt.Sprintf("k%d", i))
	}
	return ops
}

func compares(n int) []*pb.Compare {
	list := make([]*pb.Compare, n)
	for i := range list {
		list[i] = &pb.Compare{Key: []byte("a")}
	}
	return list
}
