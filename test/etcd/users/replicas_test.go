package users

import (
	"errors"
	"io"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// is reports whether an error is etcd's.
func is(err, want error) bool {
	got, ok := status.FromError(err)
	return ok && got.Code() == status.Code(want) && got.Message() == status.Convert(want).Message()
}

// connectAll starts three replicas and connects to each.
func connectAll(t *testing.T, args ...string) []*client {
	t.Helper()
	var all []*client
	for _, s := range servers.Replicas(t, 3, append(cheap, args...)...) {
		all = append(all, connect(t, s))
	}
	return all
}

// Once a revoke, a new password or a disable through one replica is acknowledged, no other honours the old right, and
// once a grant is acknowledged, all honour the new one.
func TestReplicasHonourChangesAtOnce(t *testing.T) {
	all := connectAll(t)
	root := all[0].enable()
	alice := all[1].login("alice", "the password of alice")
	for round := range 30 {
		changes, uses := all[round%3], []*client{all[(round+1)%3], all[(round+2)%3], all[round%3]}
		for _, c := range uses {
			c.must(c.put(alice, "a/k", "v"))
			c.must(c.get(alice, "a/k", true))
		}
		changes.revoke(root, "alice", "a")
		for i, c := range uses {
			for name, err := range map[string]error{
				"serializable get": c.get(alice, "a/k", true), "get": c.get(alice, "a/k", false),
				"put": c.put(alice, "a/k", "w"),
			} {
				if !is(err, rpctypes.ErrGRPCPermissionDenied) {
					t.Fatalf("round %d, replica %d: a %s after the revoke: %v", round, i, name, err)
				}
			}
		}
		changes.grant(root, "alice", "a")
	}
	_, err := all[2].auth.UserChangePassword(all[2].as(root), &pb.AuthUserChangePasswordRequest{
		Name: "alice", Password: "new",
	})
	all[2].must(err)
	for i, c := range all {
		if err := c.get(alice, "a/k", true); !is(err, rpctypes.ErrGRPCInvalidAuthToken) {
			t.Errorf("replica %d: the token from before the new password: %v", i, err)
		}
		_, err := c.auth.Authenticate(c.as(""), &pb.AuthenticateRequest{
			Name: "alice", Password: "the password of alice",
		})
		if !is(err, rpctypes.ErrGRPCAuthFailed) {
			t.Errorf("replica %d: the old password: %v", i, err)
		}
		alice := c.login("alice", "new")
		for _, other := range all {
			other.must(other.put(alice, "a/k", "x"))
		}
	}
	alice = all[0].login("alice", "new")
	_, err = all[1].auth.AuthDisable(all[1].as(root), &pb.AuthDisableRequest{})
	all[1].must(err)
	for _, c := range all {
		c.must(c.put("", "b", "anybody may"))
	}
	_, err = all[2].auth.AuthEnable(all[2].as(""), &pb.AuthEnableRequest{})
	all[2].must(err)
	for i, c := range all {
		for _, token := range []string{root, alice} {
			if err := c.get(token, "a/k", true); !is(err, rpctypes.ErrGRPCInvalidAuthToken) {
				t.Errorf("replica %d: a token from before the disable: %v", i, err)
			}
		}
		if err := c.get("", "a/k", true); !is(err, rpctypes.ErrGRPCUserEmpty) {
			t.Errorf("replica %d: without a token: %v", i, err)
		}
	}
}

// A watch through one replica ends when its right is revoked through another, before it sees what is written later.
func TestWatchEndsWithItsRight(t *testing.T) {
	all := connectAll(t)
	root := all[0].enable()
	alice := all[0].login("alice", "the password of alice")
	for round := range 5 {
		stream, err := all[1].watch.Watch(all[1].as(alice))
		all[1].must(err)
		all[1].must(stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("a/"), RangeEnd: []byte("a0")},
		}}))
		if r, err := stream.Recv(); err != nil || !r.Created || r.Canceled {
			t.Fatalf("created: %v, %v", r, err)
		}
		all[2].must(all[2].put(root, "a/k", "may be seen"))
		if r, err := stream.Recv(); err != nil || len(r.Events) != 1 || string(r.Events[0].Kv.Value) != "may be seen" {
			t.Fatalf("event: %v, %v", r, err)
		}
		all[2].revoke(root, "alice", "a")
		all[0].must(all[0].put(root, "a/k", "secret"))
		for ended := false; !ended; {
			r, err := stream.Recv()
			if errors.Is(err, io.EOF) || err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if len(r.Events) > 0 {
				t.Fatalf("round %d: an event after the revoke: %v", round, r)
			}
			if ended = r.Canceled; ended && r.CancelReason != rpctypes.ErrGRPCPermissionDenied.Error() {
				t.Errorf("ended because of %q", r.CancelReason)
			}
		}
		all[2].grant(root, "alice", "a")
	}
}

// A token made by one replica is valid on all, and across the restart of all.
func TestTokensOutliveRestarts(t *testing.T) {
	started := servers.Targets(t, append(cheap, "--auth-token-ttl", "3600")...)
	c := connect(t, started[0])
	root := c.enable()
	alice := c.login("alice", "the password of alice")
	check := func() {
		t.Helper()
		for _, s := range started {
			c := connect(t, s)
			c.must(c.put(alice, "a/k", "v"))
			if err := c.put(alice, "b", "v"); !is(err, rpctypes.ErrGRPCPermissionDenied) {
				t.Errorf("a key of others: %v", err)
			}
			_, err := c.auth.UserList(c.as(root), &pb.AuthUserListRequest{})
			c.must(err)
		}
	}
	check()
	for _, s := range started {
		s.Kill()
	}
	for _, s := range started {
		s.Restart(t)
	}
	check()
}

// A token that is not used ends with its time.
func TestTokenEnds(t *testing.T) {
	c := connect(t, servers.Target(t, append(cheap, "--auth-token-ttl", "1")...))
	c.enable()
	token := c.login("alice", "the password of alice")
	every := time.NewTicker(3 * time.Second) // each look would give it more time
	defer every.Stop()
	for ctx := c.as(""); ; {
		select {
		case <-every.C:
		case <-ctx.Done():
			t.Fatal("the token still works")
		}
		if is(c.get(token, "a/k", false), rpctypes.ErrGRPCInvalidAuthToken) {
			return
		}
	}
}

// Permissions of role root are not needed: it may do everything.
func TestRootNeedsNoPermissions(t *testing.T) {
	c := connect(t, servers.Target(t, cheap...))
	root := c.enable()
	c.must(c.put(root, "anything", "v"))
	r, err := c.auth.RoleAdd(c.as(root), &pb.AuthRoleAddRequest{Name: "root"})
	if err != nil {
		t.Fatal(r, err)
	}
	got, err := c.auth.RoleGet(c.as(root), &pb.AuthRoleGetRequest{Role: "root"})
	if err != nil || len(got.Perm) != 1 || got.Perm[0].PermType != authpb.Permission_READWRITE {
		t.Errorf("%v, %v", got, err)
	}
}
