package etcdshim

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// listed is a member list that a test sets.
type listed struct {
	living    []backend.Member
	err       error // of the members' heartbeats
	refreshed int
}

func (l *listed) Members() []backend.Member { return l.living }

func (l *listed) Auth() *auth.State                { return auth.New(backend.Auth{Revision: 1}) }
func (l *listed) CheckUser(context.Context) error  { return nil }
func (l *listed) CheckAdmin(context.Context) error { return nil }

func (l *listed) RefreshMembers(context.Context) error {
	l.refreshed++
	return l.err
}

// always is the NoLeader of a server that always has one.
func always() <-chan struct{} { return nil }

// Each replica lists all replicas, and always itself; requests neither add nor remove any.
func TestMembersOfOneDatabase(t *testing.T) {
	const self, other = 20, 10
	urls := []string{"http://10.0.0.1:2379"}
	var others listed
	id := newIdentities(1, self, func() int64 { return 1 })
	c := newCluster(id, &Options{NoLeader: always, Name: "me", PeerURLs: urls, ClientURLs: urls}, &others)
	ctx := t.Context()
	for name, tc := range map[string]struct {
		living []backend.Member
		want   []uint64
	}{
		"both": {[]backend.Member{
			{ID: other, Name: "o", ClientURLs: []string{"http://10.0.0.2:2379"}},
			{ID: self},
		}, []uint64{other, self}},
		"not seen yet": {[]backend.Member{{ID: other}}, []uint64{other, self}},
		"alone":        {[]backend.Member{}, []uint64{self}},
	} {
		others.living = tc.living
		if _, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: self}); errors.Is(err,
			errQuorum) != (len(tc.want) == 1) {
			t.Errorf("%s: removing this one: %v", name, err)
		}
		list, err := c.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		if err != nil || len(list.Members) != len(tc.want) || list.Header.MemberId != self ||
			list.Header.Revision != 0 {
			t.Fatalf("%s: %v, %v", name, list, err)
		}
		for i, m := range list.Members {
			if m.ID != tc.want[i] || m.ID == self && (m.Name != "me" || m.ClientURLs[0] != urls[0] ||
				m.PeerURLs[0] != urls[0]) {
				t.Errorf("%s: member %v, want %d", name, m, tc.want[i])
			}
		}
	}
	others.living = []backend.Member{{ID: other, ClientURLs: []string{"http://10.0.0.2:2379"}}}
	for name, tc := range map[string]struct {
		call func() error
		want error
	}{
		"add": {func() error {
			_, err := c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"http://10.0.0.3:2380"}})
			return err
		}, errJoinsItself},
		"add another's": {func() error {
			_, err := c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"http://10.0.0.2:2379"}})
			return err
		}, rpctypes.ErrGRPCPeerURLExist},
		"remove": {func() error {
			_, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{
				ID: other,
			})
			return err
		}, errLeavesItself},
		"remove nobody": {
			func() error { _, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 5}); return err },
			rpctypes.ErrGRPCMemberNotFound,
		},
		"promote another": {func() error {
			_, err := c.MemberPromote(ctx, &pb.MemberPromoteRequest{
				ID: other,
			})
			return err
		}, rpctypes.ErrGRPCMemberNotLearner},
		"update, same URLs": {func() error {
			_, err := c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: self, PeerURLs: urls})
			return err
		}, nil},
		"update another's": {func() error {
			_, err := c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: other, PeerURLs: urls})
			return err
		}, errNoPeers},
		"update an unknown member's URL": {func() error {
			_, err := c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 5, PeerURLs: urls})
			return err
		}, rpctypes.ErrGRPCMemberNotFound},
	} {
		if err := tc.call(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// A linearizable list queries the database first, and fails if that does; a serializable one answers from the last
// heartbeat.
func TestLinearizableMemberList(t *testing.T) {
	others := listed{living: []backend.Member{{ID: 10}}, err: backend.ErrUnavailable}
	id := newIdentities(1, 20, func() int64 { return 1 })
	c := newCluster(id, &Options{NoLeader: always, Name: "me"}, &others)
	if _, err := c.MemberList(t.Context(), &pb.MemberListRequest{Linearizable: true}); !errors.Is(err,
		rpctypes.ErrGRPCTimeout) {
		t.Errorf("linearizable, without the database: %v", err)
	}
	others.err = nil
	for heard, linearizable := range []bool{false, true} {
		others.refreshed = 0
		l, err := c.MemberList(t.Context(), &pb.MemberListRequest{Linearizable: linearizable})
		if err != nil || len(l.Members) != 2 || others.refreshed != heard {
			t.Errorf("linearizable %v: %v, %v, asked %d times", linearizable, l, err, others.refreshed)
		}
	}
}

// The term follows the database's epoch, and a reply keeps the term with which it was measured.
func TestTermFollowsEpoch(t *testing.T) {
	epoch := int64(1)
	ids := newIdentities(1, 2, func() int64 { return epoch })
	before := ids.now()
	size := before.size(7)
	epoch = 1 << 20
	if h := ids.header(7); h.RaftTerm != 1<<20 || h.MemberId != 2 || h.ClusterId != 1 {
		t.Errorf("header %v", h)
	}
	if before.size(7) != size || ids.now().size(7) == size {
		t.Errorf("the identity of a reply under way changed")
	}
}
