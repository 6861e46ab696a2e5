package sidebyside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Both servers allow exactly what the model of the rights allows, whatever is granted and asked for.
func TestRights(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
			etcd, target := startAuth(t, "--max-txn-ops", strconv.Itoa(maxOps))
			p, err := newAuthPlayer(t.Context(), etcd, target)
			if err != nil {
				t.Fatal(err)
			}
			f := &rightsFuzzer{p, &rights{
				roles: map[string][]*authpb.Permission{},
				users: map[string][]string{"root": {"root"}, "u1": {"r1"}, "u2": {"r2"}},
			}, map[string]int{}}
			// Chance decides what is denied: go on until every kind was.
			for n := 0; n < usualSteps || n < 10*usualSteps && f.missing() != ""; n++ {
				if err := f.step(t.Context(), seed, n); err != nil {
					t.Fatalf("step %d: %v\n\nthe last requests:\n  %s", n, err,
						strings.Join(p.played[max(0, len(p.played)-30):], "\n  "))
				}
			}
			t.Logf("%v", f.verdicts)
			if missing := f.missing(); missing != "" {
				t.Errorf("%s: %v", missing, f.verdicts)
			}
		})
	}
}

type rightsFuzzer struct {
	*authPlayer
	*rights
	verdicts map[string]int
}

// missing names a verdict that there was not yet.
func (f *rightsFuzzer) missing() string {
	for _, method := range []string{"Range", "RangeStream", "Put", "DeleteRange", "Txn", "Watch"} {
		if f.verdicts[method+" allowed"] == 0 || f.verdicts[method+" denied"] == 0 {
			return method + " was not both allowed and denied"
		}
	}
	if f.verdicts["LeaseRevoke denied"]+f.verdicts["LeaseKeepAlive denied"] == 0 {
		return "no lease had keys of others"
	}
	return ""
}

func (f *rightsFuzzer) step(ctx context.Context, seed uint64, n int) error {
	g := &gen{rand.New(rand.NewPCG(seed, uint64(n)+1<<32)), f.state}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if g.often(25) {
		return f.administer(ctx, g)
	}
	if err := f.lookAtLeases(ctx); err != nil {
		return err
	}
	user := pick(g, userNames...)
	if user == "root" && g.often(70) {
		user = "u1"
	}
	c, may, defined := f.draw(g, user)
	got, err := f.askBoth(ctx, as(user, c))
	if err != nil {
		return err
	}
	denied := status.Code(got.err) == codes.PermissionDenied
	if w, ok := got.msg.(*pb.WatchResponse); ok && got.err == nil {
		denied = strings.Contains(w.CancelReason, "permission denied")
	}
	switch {
	case !defined:
	case may && denied:
		return fmt.Errorf("both servers deny what the model allows: %s", as(user, c))
	case !may && !denied && got.err == nil:
		return fmt.Errorf("both servers allow what the model denies: %s", as(user, c))
	case denied:
		f.verdicts[c.method+" denied"]++
	case got.err == nil:
		f.verdicts[c.method+" allowed"]++
	}
	return nil
}

// administer changes rights as root, and the model as the servers confirm it.
func (f *rightsFuzzer) administer(ctx context.Context, g *gen) error {
	user, role := pick(g, "u1", "u2", "u3"), pick(g, "r1", "r2")
	var c call
	learn := func() error { return f.lookAtRole(ctx, role) }
	switch i := g.IntN(10); {
	case i < 5:
		p := g.permission()
		for p == nil || inverted(p.Key, p.RangeEnd) || len(p.Key) == 0 {
			p = g.permission()
		}
		c = grantPermission(role, p)
	case i < 7:
		key, end := g.span()
		if all := f.roles[role]; len(all) > 0 {
			p := pick(g, all...)
			key, end = p.Key, p.RangeEnd
		}
		c = revokePermission(role, key, end)
	case i < 9:
		c = grantRole(user, role)
		learn = func() error {
			if !slices.Contains(f.users[user], role) {
				f.users[user] = append(f.users[user], role)
			}
			return nil
		}
	default:
		c = revokeRole(user, role)
		learn = func() error {
			f.users[user] = slices.DeleteFunc(slices.Clone(f.users[user]), func(r string) bool { return r == role })
			return nil
		}
	}
	got, err := f.askBoth(ctx, as("root", c))
	if err == nil && got.err == nil {
		err = learn()
	}
	return err
}

// lookAtRole lets the model know the permissions of a role: a grant may add one to another on the same range, or
// replace it.
func (f *rightsFuzzer) lookAtRole(ctx context.Context, role string) error {
	got, err := f.askBoth(ctx, as("root", roleGet(role)))
	if err != nil || got.err != nil {
		return errors.Join(err, got.err)
	}
	f.roles[role] = got.msg.(*pb.AuthRoleGetResponse).Perm
	return nil
}

// lookAtLeases lets the model know the keys of each lease.
func (f *rightsFuzzer) lookAtLeases(ctx context.Context) error {
	f.keys = map[int64]map[string]bool{}
	for _, id := range leases {
		got := f.etcd.ask(ctx, as("root", timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: id, Keys: true})))
		if got.err != nil {
			return got.err
		}
		f.keys[id] = map[string]bool{}
		for _, key := range got.msg.(*pb.LeaseTimeToLiveResponse).Keys {
			f.keys[id][string(key)] = true
		}
	}
	return nil
}

// draw draws a request, and says whether the model lets the user make it. Where ranges are empty or reversed, what
// etcd allows follows from its data structures: there only the servers are compared, and defined is false.
func (f *rightsFuzzer) draw(g *gen, user string) (c call, may, defined bool) {
	switch i := g.IntN(100); {
	case i < 20:
		r := g.rangeRequest()
		return rangeCall(r), f.read(user, r.Key, r.RangeEnd), !inverted(r.Key, r.RangeEnd)
	case i < 25:
		r := g.streamRequest()
		return rangeStreamCall(r), f.read(user, r.Key, r.RangeEnd), !inverted(r.Key, r.RangeEnd)
	case i < 50:
		r := g.putRequest()
		r.IgnoreValue, r.IgnoreLease = false, false
		if g.often(30) {
			r.Lease = leases[0]
		}
		return putCall(r), f.put(user, r), true
	case i < 60:
		r := g.deleteRequest()
		return deleteCall(r), f.remove(user, r), !inverted(r.Key, r.RangeEnd)
	case i < 75:
		r := g.txnRequest()
		return txnCall(r), f.txn(user, r), !invertedTxn(r)
	case i < 82:
		r := g.watchRequest()
		if len(r.Key) == 0 {
			r.Key = []byte{0}
		}
		return watchCall(r), f.read(user, r.Key, r.RangeEnd), !inverted(r.Key, r.RangeEnd)
	}
	id := g.leaseID()
	if g.often(40) {
		id = leases[0]
	}
	switch g.IntN(6) {
	case 0, 1:
		return grantCall(&pb.LeaseGrantRequest{ID: id, TTL: 3600}), true, true
	case 2:
		return revokeCall(&pb.LeaseRevokeRequest{ID: id}), f.writeLease(user, id), true
	case 3:
		r := &pb.LeaseTimeToLiveRequest{ID: id, Keys: g.often(80)}
		return unheaded(timeToLiveCall(r)), !r.Keys || f.readLease(user, id), true
	case 4:
		return unheaded(keepAliveCall(&pb.LeaseKeepAliveRequest{ID: id})), f.writeLease(user, id), true
	}
	may = true
	for id := range f.keys {
		may = may && f.readLease(user, id)
	}
	return unheaded(leasesCall()), may, true
}

func inverted(key, end []byte) bool {
	return len(end) > 0 && string(end) != "\x00" && bytes.Compare(key, end) >= 0
}

func invertedTxn(r *pb.TxnRequest) bool {
	for _, c := range r.Compare {
		if inverted(c.Key, c.RangeEnd) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		q, d, t := op.GetRequestRange(), op.GetRequestDeleteRange(), op.GetRequestTxn()
		return inverted(q.GetKey(), q.GetRangeEnd()) || inverted(d.GetKey(), d.GetRangeEnd()) ||
			t != nil && invertedTxn(t)
	})
}
