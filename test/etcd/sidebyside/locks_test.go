package sidebyside

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

// The services for locks and elections act with the caller's rights, as etcd's do.
func TestLocksOfUsers(t *testing.T) {
	etcd, target := startAuth(t)
	p, err := newAuthPlayer(t.Context(), etcd, target)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(user string, c call) answer {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		defer cancel()
		got, err := p.askBoth(ctx, as(user, c))
		if err != nil {
			t.Error(err)
		}
		return got
	}
	granted := grantPermission("r1", &authpb.Permission{
		PermType: authpb.Permission_READWRITE, Key: []byte("mine/"), RangeEnd: []byte("mine0"),
	})
	if got := ask("root", granted); got.err != nil {
		t.Fatal(got.err)
	}
	reads := grantPermission("r1", &authpb.Permission{
		PermType: authpb.Permission_READ, Key: []byte("seen/"), RangeEnd: []byte("seen0"),
	})
	if got := ask("root", reads); got.err != nil {
		t.Fatal(got.err)
	}
	const lease = 7777
	if got := ask("root", grantCall(&pb.LeaseGrantRequest{ID: lease, TTL: 3600})); got.err != nil {
		t.Fatal(got.err)
	}
	verdicts := map[string]map[string]bool{}
	for _, user := range []string{"u1", "u2", nobody, forger, "root"} {
		for _, prefix := range []string{"mine", "seen", "foreign"} {
			name := prefix + "/" + user
			key := fmt.Sprintf("%s/%x", name, lease)
			leader := &v3electionpb.LeaderKey{Name: []byte(name), Key: []byte(key), Lease: lease}
			campaign := ask(user, campaignCall(&v3electionpb.CampaignRequest{
				Name: []byte(name), Lease: lease, Value: []byte("v"),
			}))
			if a, ok := campaign.msg.(*v3electionpb.CampaignResponse); ok && campaign.err == nil {
				leader = a.Leader
			}
			calls := []call{
				proclaimCall(leader, "w"), leaderCall(name), resignCall(leader),
				lockCall(&v3lockpb.LockRequest{Name: []byte(name), Lease: lease}), unlockCall(key),
			}
			for i, c := range calls {
				// Where nobody leads, an observer that may read waits.
				if i == 2 && campaign.err == nil {
					ask(user, observeCall(name))
				}
				got := ask(user, c)
				if verdicts[c.method] == nil {
					verdicts[c.method] = map[string]bool{}
				}
				switch {
				case got.err == nil:
					verdicts[c.method]["allowed"] = true
				case strings.Contains(got.err.Error(), "permission denied"):
					verdicts[c.method]["denied"] = true
				}
			}
		}
	}
	for method, seen := range verdicts {
		if !seen["allowed"] || !seen["denied"] {
			t.Errorf("%s was not both allowed and denied: %v", method, seen)
		}
	}
}

// The limit of a request counts for locks and elections as for the transactions that they are. It may be a byte lower
// than etcd's, whose own one depends on its member's id: ids of requests begin with it, and take 9 or 10 bytes.
func TestLargeLocks(t *testing.T) {
	const limit, lease = 4096, 7777
	etcd, target := startBoth(t, "--max-request-bytes", strconv.Itoa(limit))
	p, ctx := newPlayer(etcd, target), within(t)
	ask := func(c call) answer {
		t.Helper()
		got, err := p.askBoth(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(grantCall(&pb.LeaseGrantRequest{ID: lease, TTL: 3600})); got.err != nil {
		t.Fatal(got.err)
	}
	campaign := ask(campaignCall(&v3electionpb.CampaignRequest{Name: []byte("led"), Lease: lease}))
	if campaign.err != nil {
		t.Fatal(campaign.err)
	}
	leader := campaign.msg.(*v3electionpb.CampaignResponse).Leader
	for _, large := range []func(n int) call{
		func(n int) call {
			return lockCall(&v3lockpb.LockRequest{Name: bytes.Repeat([]byte("l"), n), Lease: lease})
		},
		func(n int) call { return unlockCall(strings.Repeat("u", n)) },
		func(n int) call {
			return campaignCall(&v3electionpb.CampaignRequest{
				Name: fmt.Appendf(nil, "%08d", n), Lease: lease, Value: bytes.Repeat([]byte("v"), n),
			})
		},
		func(n int) call { return proclaimCall(leader, strings.Repeat("v", n)) },
		func(n int) call { return resignCall(&v3electionpb.LeaderKey{Key: bytes.Repeat([]byte("r"), n)}) },
	} {
		limitOf := func(s *side) int {
			n := sort.Search(limit, func(n int) bool { return n > 0 && s.ask(ctx, large(n)).err != nil })
			err := s.ask(ctx, large(n)).err
			if err == nil || !strings.Contains(err.Error(), "request is too large") {
				t.Errorf("%s: %s of %d bytes: %v", s.name, large(0).method, n, err)
			}
			return n
		}
		ours, theirs := limitOf(target), limitOf(etcd)
		if ours != theirs && ours != theirs-1 {
			t.Errorf("%s: %d bytes are too many, for etcd %d", large(0).method, ours, theirs)
		}
	}
}
