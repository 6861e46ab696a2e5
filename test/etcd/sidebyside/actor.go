package sidebyside

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// nobody is the caller without a token, and forger the one with a token that no server made.
const (
	nobody = ""
	forger = "(forger)"
)

// badge has the tokens of one server's users. A user without one uses a wrong token.
type badge struct {
	mu     sync.Mutex
	tokens map[string]string
}

func (b *badge) set(user, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens == nil {
		b.tokens = map[string]string{}
	}
	b.tokens[user] = token
}

// of returns ctx for calls as a user.
func (b *badge) of(ctx context.Context, user string) context.Context {
	if user == nobody {
		return ctx
	}
	b.mu.Lock()
	token, ok := b.tokens[user]
	b.mu.Unlock()
	if !ok {
		token = "abcdefghijklmnop.1"
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// as makes a call that a user sends. Where it logs in, the server's badge remembers the token.
func as(user string, c call) call {
	send := c.send
	name := user
	if name == nobody {
		name = "nobody"
	}
	return call{"as " + name + ": " + c.method, c.req, func(ctx context.Context, s *side) (proto.Message, error) {
		m, err := send(s.badge.of(ctx, user), s)
		if login, ok := m.(*pb.AuthenticateResponse); ok && err == nil {
			s.badge.set(c.req.(*pb.AuthenticateRequest).Name, login.Token)
			login.Token = "" // differs
		}
		return m, err
	}}
}

// rotation is a connection to several replicas, which takes calls to them in turn. While authentication is enabled, a
// replica catches up by itself, because the call needs rights. Otherwise rotation makes it catch up.
type rotation struct {
	all     []*grpc.ClientConn
	next    atomic.Uint64
	enabled atomic.Bool // authentication
}

func (r *rotation) pick() *grpc.ClientConn { return r.all[r.next.Add(1)%uint64(len(r.all))] }

func (r *rotation) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	conn := r.pick()
	if local(req) && !r.enabled.Load() {
		if _, err := catchUp(ctx, conn); err != nil {
			return err
		}
	}
	return conn.Invoke(ctx, method, req, reply, opts...)
}

func (r *rotation) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn := r.pick()
	stream, err := conn.NewStream(ctx, desc, method, opts...)
	if err != nil || r.enabled.Load() {
		return stream, err
	}
	return caughtUp{stream, conn}, nil
}

// dialRotation connects to replicas that take calls in turn.
func dialRotation(tb testing.TB, name string, replicas []*launch.Server) *side {
	tb.Helper()
	r := &rotation{}
	for _, server := range replicas {
		r.all = append(r.all, connect(tb, name, server.Endpoint()))
	}
	s := newSide(name, r)
	s.rotation = r
	return s
}
