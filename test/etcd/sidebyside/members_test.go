package sidebyside

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// In a cluster of one member, etcd refuses every change of that member except one that changes nothing.
func TestOnlyMember(t *testing.T) {
	etcd := dial(t, "etcd", servers.Etcd(t, "--unsafe-no-fsync").Endpoint())
	target := dial(t, "target", servers.OnlyTarget(t, "--unsafe-no-fsync").Endpoint())
	for name, r := range map[string]refusal{
		"removed": {memberCall("MemberRemove",
			func(ctx context.Context, c pb.ClusterClient, m *pb.Member) (proto.Message, error) {
				return c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: m.ID})
			}), codes.Unknown, "etcdserver: re-configuration failed due to not enough started members"},
		"added again": {
			memberCall("MemberAdd", func(ctx context.Context, c pb.ClusterClient, m *pb.Member) (proto.Message, error) {
				return c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: m.PeerURLs})
			}), codes.FailedPrecondition, "etcdserver: Peer URLs already exists",
		},
		"added again as a learner": {
			memberCall("MemberAdd", func(ctx context.Context, c pb.ClusterClient, m *pb.Member) (proto.Message, error) {
				return c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: append([]string{"http://127.0.0.1:1"},
					m.PeerURLs...), IsLearner: true})
			}), codes.FailedPrecondition, "etcdserver: Peer URLs already exists",
		},
	} {
		t.Run(name, func(t *testing.T) { checkRefusal(t, r, etcd, target) })
	}
	for _, s := range []*side{etcd, target} {
		list, err := s.cluster.MemberList(t.Context(), &pb.MemberListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		self := list.Members[0]
		got, err := s.cluster.MemberUpdate(t.Context(), &pb.MemberUpdateRequest{ID: self.ID, PeerURLs: self.PeerURLs})
		if err != nil || got.Header.MemberId != self.ID || len(got.Members) != 1 || !proto.Equal(got.Members[0], self) {
			t.Errorf("%s: update to the same URLs: %v, %v; want %v", s.name, got, err, self)
		}
	}
}

// memberCall makes a call that gets the id of the answering member.
func memberCall(method string, send func(context.Context, pb.ClusterClient, *pb.Member) (proto.Message, error)) call {
	return call{method, nil, func(ctx context.Context, s *side) (proto.Message, error) {
		list, err := s.cluster.MemberList(ctx, &pb.MemberListRequest{})
		if err != nil {
			return nil, err
		}
		return send(ctx, s.cluster, list.Members[0])
	}}
}
