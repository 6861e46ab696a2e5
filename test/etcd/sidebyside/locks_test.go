package sidebyside

import (
	"context"
	"fmt"
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
