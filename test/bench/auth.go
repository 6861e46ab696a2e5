package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// The users of a run with authentication: one who may read and write all keys by a role's permission, and root for what
// only administrators may do.
const (
	benchUser     = "bench"
	benchRole     = "everything"
	benchPassword = "bench"
	rootUser      = "root"
)

// authArgs are the flags of a server with authentication: tokens outlive the run.
func (l launching) authArgs() []string {
	if !l.auth {
		return nil
	}
	return []string{"--auth-token-ttl", "86400"}
}

// badges are the tokens of a target's users.
type badges struct{ user, root atomic.Pointer[string] }

// of returns ctx with the token for a method.
func (b *badges) of(ctx context.Context, method string) context.Context {
	token := b.user.Load()
	switch method {
	case pb.KV_Compact_FullMethodName, pb.Maintenance_Snapshot_FullMethodName, pb.Maintenance_HashKV_FullMethodName:
		token = b.root.Load()
	}
	if token == nil {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, *token)
}

// dialOptions make calls carry a token.
func (b *badges) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			call grpc.UnaryInvoker, o ...grpc.CallOption,
		) error {
			return call(b.of(ctx, method), method, req, reply, cc, o...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			open grpc.Streamer, o ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return open(b.of(ctx, method), desc, cc, method, o...)
		}),
	}
}

// authorized is a transport for the list/watch API whose requests carry a token.
type authorized struct {
	*badges
	next http.RoundTripper
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := a.user.Load(); token != nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+*token)
	}
	return a.next.RoundTrip(r)
}

// login gets tokens, and enables authentication if the server is new.
func (t *target) login(ctx context.Context) error {
	client := pb.NewAuthClient(t.conns[0])
	for _, user := range []struct {
		name string
		to   *atomic.Pointer[string]
	}{{rootUser, &t.badges.root}, {benchUser, &t.badges.user}} {
		for {
			r, err := client.Authenticate(ctx, &pb.AuthenticateRequest{Name: user.name, Password: benchPassword},
				grpc.WaitForReady(true))
			if err == nil {
				user.to.Store(&r.Token)
				break
			}
			if known := rpctypes.Error(err); errors.Is(known, rpctypes.ErrAuthNotEnabled) {
				if err := enable(ctx, client); err != nil {
					return fmt.Errorf("%s: enable authentication: %w", t.name, err)
				}
				continue
			}
			if ctx.Err() != nil || t.dead() != nil {
				return fmt.Errorf("%s: log in: %w", t.name, err)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}

// enable makes the users and enables authentication.
func enable(ctx context.Context, c pb.AuthClient) error {
	for _, step := range []func() error{
		func() error {
			_, err := c.UserAdd(ctx, &pb.AuthUserAddRequest{Name: rootUser, Password: benchPassword})
			return err
		},
		func() error {
			_, err := c.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: rootUser, Role: rootUser})
			return err
		},
		func() error {
			_, err := c.UserAdd(ctx, &pb.AuthUserAddRequest{Name: benchUser, Password: benchPassword})
			return err
		},
		func() error {
			_, err := c.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: benchRole})
			return err
		},
		func() error {
			_, err := c.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{
				Name: benchRole,
				Perm: &authpb.Permission{PermType: authpb.Permission_READWRITE, Key: []byte{0}, RangeEnd: []byte{0}},
			})
			return err
		},
		func() error {
			_, err := c.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: benchUser, Role: benchRole})
			return err
		},
		func() error {
			_, err := c.AuthEnable(ctx, &pb.AuthEnableRequest{})
			return err
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
