package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errMembersFixed = status.Error(codes.Unimplemented, "etcdserver: members are not managed through this API")

// cluster serves etcdserverpb.Cluster for one member that stays.
type cluster struct {
	id     *identity
	member *pb.Member
	pb.UnsafeClusterServer
}

func newCluster(id *identity, o *Options) *cluster {
	return &cluster{id: id, member: &pb.Member{ID: id.member, Name: o.Name, PeerURLs: o.PeerURLs, ClientURLs: o.ClientURLs}}
}

func (s *cluster) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Header: s.id.header(0), Members: []*pb.Member{s.member}}, nil
}

func (s *cluster) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	if _, err := types.NewURLs(r.PeerURLs); err != nil {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	return nil, errMembersFixed
}

func (s *cluster) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return nil, s.refuse(r.ID, errMembersFixed)
}

func (s *cluster) MemberUpdate(_ context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	return nil, s.refuse(r.ID, errMembersFixed)
}

func (s *cluster) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return nil, s.refuse(r.ID, rpctypes.ErrGRPCMemberNotLearner)
}

func (s *cluster) refuse(id uint64, err error) error {
	if id != s.id.member {
		return rpctypes.ErrGRPCMemberNotFound
	}
	return err
}
