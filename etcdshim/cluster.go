package etcdshim

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
)

var (
	// etcd 3.7 sends this error without its own code, FailedPrecondition.
	errQuorum = status.Error(codes.Unknown, rpctypes.ErrorDesc(rpctypes.ErrGRPCMemberNotEnoughStarted))
	// Requests that etcd supports and this server cannot: the answers say what to do instead.
	errNoMoreMembers = status.Error(codes.Unimplemented,
		"etcdserver: this server is a single-member cluster and cannot add members: "+
			"to move it, stop it and start another one on its data directory, or restore a snapshot elsewhere")
	errJoinsItself = status.Error(codes.Unimplemented, "etcdserver: members cannot be added by request: "+
		"start another server on the same database, and it joins")
	errLeavesItself = status.Error(codes.Unimplemented, "etcdserver: members cannot be removed by request: "+
		"stop the server, and it leaves")
	errNoPeers = status.Error(codes.Unimplemented,
		"etcdserver: this server has no peers, so peer URLs cannot be set: "+
			"to advertise other URLs to clients, restart it with other advertised client URLs")
)

// cluster serves etcdserverpb.Cluster: for one permanent member, or for the replicas over one database, which come and
// go on their own. Requests that etcd refuses to its only member, or that change nothing, get etcd's answers, checked
// in etcd's order.
type cluster struct {
	id   *identities
	self *pb.Member
	// noLeader is that of Options.
	noLeader func() <-chan struct{}
	membership
	pb.UnsafeClusterServer
}

// membership knows the replicas of one database, and who may change them.
type membership interface {
	users
	// Members returns the live members, or nil if there can be none but this one.
	Members() []backend.Member
	// RefreshMembers makes Members include all that joined before the call.
	RefreshMembers(ctx context.Context) error
}

func newCluster(id *identities, o *Options, others membership) *cluster {
	self := &pb.Member{ID: id.member(), Name: o.Name, PeerURLs: o.PeerURLs, ClientURLs: o.ClientURLs}
	return &cluster{id: id, self: self, noLeader: o.NoLeader, membership: others}
}

// members returns the members by id. This server is always included: it is alive, whatever the database knows.
func (s *cluster) members() []*pb.Member {
	list := []*pb.Member{s.self}
	for _, m := range s.Members() {
		if m.ID != s.self.ID {
			list = append(list, &pb.Member{ID: m.ID, Name: m.Name, PeerURLs: m.ClientURLs, ClientURLs: m.ClientURLs})
		}
	}
	slices.SortFunc(list, func(a, b *pb.Member) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return list
}

func (s *cluster) find(id uint64) *pb.Member {
	for _, m := range s.members() {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// alone reports whether there can be no other members.
func (s *cluster) alone() bool { return s.Members() == nil }

func (s *cluster) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := s.RefreshMembers(ctx); err != nil {
			return nil, statusError(ctx, err)
		}
	}
	if err := known(ctx, s, s.noLeader()); err != nil {
		return nil, err
	}
	return &pb.MemberListResponse{Header: s.id.header(0), Members: s.members()}, nil
}

func (s *cluster) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	urls, err := types.NewURLs(r.PeerURLs)
	if err != nil {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	for _, m := range s.members() {
		for _, u := range urls.StringSlice() {
			if slices.Contains(m.PeerURLs, u) {
				return nil, rpctypes.ErrGRPCPeerURLExist
			}
		}
	}
	if !s.alone() {
		return nil, errJoinsItself
	}
	return nil, errNoMoreMembers
}

// MemberRemove never succeeds: without its only member a cluster has no quorum.
func (s *cluster) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	switch {
	case s.find(r.ID) == nil:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case len(s.members()) > 1:
		return nil, errLeavesItself
	}
	return nil, errQuorum
}

// MemberUpdate succeeds if it changes nothing.
func (s *cluster) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	m := s.find(r.ID)
	if m == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	if !slices.Equal(r.PeerURLs, m.PeerURLs) {
		return nil, errNoPeers
	}
	return &pb.MemberUpdateResponse{Header: s.id.header(0), Members: s.members()}, nil
}

func (s *cluster) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, statusError(ctx, err)
	}
	if s.find(r.ID) == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	return nil, rpctypes.ErrGRPCMemberNotLearner
}
