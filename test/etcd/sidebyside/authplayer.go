package sidebyside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// The names that sequences of users and roles use: few, so that they meet.
var (
	userNames = []string{"root", "u1", "u2", "u3"}
	roleNames = []string{"root", "r1", "r2", "r3"}
	passwords = []string{"one", "two"}
)

// authPlayer plays sequences in which administrators change users and roles, and users read and write.
type authPlayer struct {
	*player
	passwords map[string]string // the last one set for each user
}

// newAuthPlayer prepares both servers: most sequences run with authentication enabled and users who can log in.
func newAuthPlayer(ctx context.Context, etcd, target *side) (*authPlayer, error) {
	p := &authPlayer{newPlayer(etcd, target), map[string]string{}}
	prepare := []call{roleAdd("root"), roleAdd("r1"), roleAdd("r2")}
	for _, name := range userNames {
		prepare = append(prepare, userAdd(name, passwords[0], nil))
		p.passwords[name] = passwords[0]
	}
	prepare = append(prepare, grantRole("root", "root"), grantRole("u1", "r1"), grantRole("u2", "r2"), authEnable())
	for _, name := range userNames {
		prepare = append(prepare, as(nobody, authenticate(name, passwords[0])))
	}
	for _, c := range prepare {
		if err := p.ask(ctx, c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// play takes the given steps of the seed's sequence.
func (p *authPlayer) play(ctx context.Context, seed uint64, steps []int) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, n := range steps {
		if err := p.step(ctx, seed, n); err != nil {
			return i + 1, fmt.Errorf("step %d of seed %d: %w", n, seed, err)
		}
	}
	return len(steps), nil
}

func (p *authPlayer) step(ctx context.Context, seed uint64, n int) error {
	g := &gen{rand.New(rand.NewPCG(seed, uint64(n))), p.state}
	within, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	caller := g.caller()
	switch i := g.IntN(100); {
	case i < 22:
		return p.change(within, g)
	case i < 30:
		return p.login(within, g)
	case i < 36:
		return p.ask(within, as(caller, g.lookup()))
	case i < 40:
		return p.watched(within, caller, g)
	default:
		return p.ask(within, as(caller, g.work()))
	}
}

// caller draws who calls: mostly a user, else nobody, or somebody with a token that nobody made.
func (g *gen) caller() string {
	switch g.IntN(20) {
	case 0:
		return nobody
	case 1:
		return forger
	default:
		return pick(g, userNames...)
	}
}

// name draws a user or a role, sometimes one that cannot exist.
func (g *gen) name(from []string) string {
	if g.often(3) {
		return pick(g, "", "unknown")
	}
	return pick(g, from...)
}

// change changes users or roles, mostly as root.
func (p *authPlayer) change(ctx context.Context, g *gen) error {
	caller := "root"
	if g.often(15) {
		caller = g.caller()
	}
	user, role := g.name(userNames), g.name(roleNames)
	switch i := g.IntN(100); {
	case i < 6:
		return p.add(ctx, caller, user, g)
	case i < 9:
		return p.ask(ctx, as(caller, userDelete(user)))
	case i < 14:
		return p.newPassword(ctx, caller, user, g)
	case i < 30:
		return p.ask(ctx, as(caller, grantRole(user, role)))
	case i < 40:
		return p.ask(ctx, as(caller, revokeRole(user, role)))
	case i < 46:
		return p.ask(ctx, as(caller, roleAdd(role)))
	case i < 49:
		return p.ask(ctx, as(caller, roleDelete(role)))
	case i < 80:
		return p.ask(ctx, as(caller, grantPermission(role, g.permission())))
	case i < 94:
		key, end := g.span()
		if g.often(60) { // one that is likely to be granted
			granted := g.permission()
			key, end = granted.GetKey(), granted.GetRangeEnd()
		}
		return p.ask(ctx, as(caller, revokePermission(role, key, end)))
	case i < 96:
		return p.ask(ctx, as(caller, authDisable()))
	default:
		return p.ask(ctx, as(caller, authEnable()))
	}
}

func (p *authPlayer) add(ctx context.Context, caller, user string, g *gen) error {
	password := pick(g, passwords...)
	var options *authpb.UserAddOptions
	switch g.IntN(8) {
	case 0:
		options = &authpb.UserAddOptions{NoPassword: true}
	case 1:
		options = &authpb.UserAddOptions{}
	case 2:
		password = pick(g, "", strings.Repeat("x", 73))
	}
	answer, err := p.askBoth(ctx, as(caller, userAdd(user, password, options)))
	if err == nil && answer.err == nil {
		p.passwords[user] = password
	}
	return err
}

// clientHash is a bcrypt hash that a client has made, in base64.
const clientHash = "JDJhJDA0JHFxTmRBQm5nT0pMU2lWWTdFMGFWYy5uWXVTeS9QSjcvNm1SZFZsUzR0cDNMckpvd29lVC5x"

func (p *authPlayer) newPassword(ctx context.Context, caller, user string, g *gen) error {
	password, hashed := pick(g, passwords...), ""
	switch g.IntN(8) {
	case 0:
		password = ""
	case 1:
		password, hashed = "", pick(g, clientHash, "!", "bm8gaGFzaA==")
	}
	answer, err := p.askBoth(ctx, as(caller, changePassword(user, password, hashed)))
	if err == nil && answer.err == nil {
		p.passwords[user] = password
	}
	return err
}

// permission draws a permission: mostly on few ranges, so that they overlap and are revoked again.
func (g *gen) permission() *authpb.Permission {
	if g.often(2) {
		return nil
	}
	p := &authpb.Permission{PermType: authpb.Permission_Type(g.IntN(3))}
	if g.often(30) {
		p.Key, p.RangeEnd = g.span()
		return p
	}
	prefix := pick(g, "a", "b", "c", "b/")
	switch g.IntN(4) {
	case 0:
		p.Key = []byte(prefix)
	case 1:
		p.Key, p.RangeEnd = []byte(prefix), []byte{0}
	default:
		p.Key, p.RangeEnd = []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
	}
	return p
}

// login makes a token, mostly with the right password: wrong ones are limited.
func (p *authPlayer) login(ctx context.Context, g *gen) error {
	user := g.name(userNames)
	password := p.passwords[user]
	if g.often(8) {
		password = pick(g, "one", "two", "", "wrong")
	}
	return p.ask(ctx, as(nobody, authenticate(user, password)))
}

// lookup draws a question about users and roles.
func (g *gen) lookup() call {
	switch g.IntN(5) {
	case 0:
		return userGet(g.name(userNames))
	case 1:
		return userList()
	case 2:
		return roleGet(g.name(roleNames))
	case 3:
		return roleList()
	default:
		return authStatus()
	}
}

// work draws a request about keys, leases or the server.
func (g *gen) work() call {
	switch i := g.IntN(100); {
	case i < 25:
		r := g.putRequest()
		r.IgnoreLease, r.IgnoreValue = false, false
		return putCall(r)
	case i < 45:
		r := g.rangeRequest()
		r.Serializable = r.Serializable && g.often(50)
		return rangeCall(r)
	case i < 50:
		return rangeStreamCall(g.streamRequest())
	case i < 60:
		return deleteCall(g.deleteRequest())
	case i < 80:
		return txnCall(g.txnRequest())
	case i < 84:
		return grantCall(&pb.LeaseGrantRequest{ID: g.leaseID(), TTL: 3600})
	case i < 87:
		return revokeCall(&pb.LeaseRevokeRequest{ID: g.leaseID()})
	case i < 91:
		return unheaded(timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: g.leaseID(), Keys: g.often(80)}))
	case i < 93:
		return unheaded(leasesCall())
	case i < 96:
		return unheaded(keepAliveCall(&pb.LeaseKeepAliveRequest{ID: g.leaseID()}))
	default:
		return g.maintain()
	}
}

// maintain draws a request about the server, of which only the refusal is compared where the answers differ.
func (g *gen) maintain() call {
	switch g.IntN(6) {
	case 0:
		return compactCall(&pb.CompactionRequest{Revision: 0x7fffffff}) // refused, whoever asks
	case 1:
		return refusalOnly("MemberList", func(ctx context.Context, s *side) error {
			_, err := s.cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
			return err
		})
	case 2:
		return refusalOnly("Status", func(ctx context.Context, s *side) error {
			_, err := s.maint.Status(ctx, &pb.StatusRequest{})
			return err
		})
	case 3:
		r := &pb.AlarmRequest{Action: pb.AlarmRequest_AlarmAction(g.IntN(3))}
		return refusalOnly("Alarm {"+text(r)+"}", func(ctx context.Context, s *side) error {
			_, err := s.maint.Alarm(ctx, r)
			return err
		})
	case 4:
		return refusalOnly("MemberRemove", func(ctx context.Context, s *side) error {
			_, err := s.cluster.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 1})
			return err
		})
	default:
		return refusalOnly("HashKV", func(ctx context.Context, s *side) error {
			_, err := s.maint.HashKV(ctx, &pb.HashKVRequest{})
			return err
		})
	}
}

// refusalOnly makes a call whose answers are not compared, only its errors.
func refusalOnly(method string, send func(context.Context, *side) error) call {
	return call{method, nil, func(ctx context.Context, s *side) (proto.Message, error) {
		return &pb.RequestOp{}, send(ctx, s)
	}}
}

// unheaded makes a call whose answer has no header to compare: leases have no revisions, and the header has that which
// the answering member has seen.
func unheaded(c call) call {
	send := c.send
	return call{c.method, c.req, func(ctx context.Context, s *side) (proto.Message, error) {
		m, err := send(ctx, s)
		switch a := m.(type) {
		case *pb.LeaseTimeToLiveResponse:
			a.Header = nil
		case *pb.LeaseLeasesResponse:
			a.Header = nil
		case *pb.LeaseKeepAliveResponse:
			a.Header = nil
		}
		return m, err
	}}
}

// watched begins a watch and ends it: what it receives while rights change is tested elsewhere.
func (p *authPlayer) watched(ctx context.Context, caller string, g *gen) error {
	r := g.watchRequest()
	r.StartRevision = pick[int64](g, 0, 0, -1)
	return p.ask(ctx, as(caller, watchCall(r)))
}

// watchCall opens a stream for one watch; the answer is the response to its creation.
func watchCall(r *pb.WatchCreateRequest) call {
	return call{"Watch", r, func(ctx context.Context, s *side) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.watch.Watch(ctx)
		if err != nil {
			return nil, err
		}
		if err := stream.Send(createRequest(r)); err != nil {
			return nil, err
		}
		return stream.Recv()
	}}
}
