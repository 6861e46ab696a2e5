package etcdshim

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// etcd 3.7 sends this one without its own code, FailedPrecondition.
	errQuorum = status.Error(codes.Unknown, rpctypes.ErrorDesc(rpctypes.ErrGRPCMemberNotEnoughStarted))
	// What etcd would do, and this server cannot: the answers say what to do instead.
	errNoMoreMembers = status.Error(codes.Unimplemented, "etcdserver: this server is a cluster of one member and takes no other: "+
		"to move it, stop it and start another one on its data directory, or restore a snapshot where it shall be")
	errNoPeers = status.Error(codes.Unimplemented, "etcdserver: this server has no peers and its peer URLs cannot be set: "+
		"to change the URLs that clients are told, start it again with other --advertise-client-urls")
)

// cluster serves etcdserverpb.Cluster for one member that stays. Requests that etcd refuses to its only member, or that
// change nothing, have etcd's answers, checked in etcd's order.
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
	urls, err := types.NewURLs(r.PeerURLs)
	if err != nil {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	for _, u := range urls.StringSlice() {
		if slices.Contains(s.member.PeerURLs, u) {
			return nil, rpctypes.ErrGRPCPeerURLExist
		}
	}
	return nil, errNoMoreMembers
}

// MemberRemove never succeeds: without its only member a cluster has no quorum.
func (s *cluster) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	if r.ID != s.id.member {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	return nil, errQuorum
}

// MemberUpdate succeeds where it changes nothing.
func (s *cluster) MemberUpdate(_ context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	if r.ID != s.id.member {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	if !slices.Equal(r.PeerURLs, s.member.PeerURLs) {
		return nil, errNoPeers
	}
	return &pb.MemberUpdateResponse{Header: s.id.header(0), Members: []*pb.Member{s.member}}, nil
}

func (s *cluster) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	if r.ID != s.id.member {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	return nil, rpctypes.ErrGRPCMemberNotLearner
}
