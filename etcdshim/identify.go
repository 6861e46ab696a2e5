package etcdshim

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
)

// callers adds to the context of each call who calls, by its token or its client's certificate. The engine decides what
// that allows, and when an invalid token matters: as in etcd, a malformed request is refused before it.
type callers struct {
	authn *authn.Authenticator
	// certificates is set if the common name of a client's certificate is a user.
	certificates bool
}

// bearerPrefix may precede a token.
const bearerPrefix = "Bearer "

// identify returns ctx with who calls. It fails only if the database cannot tell.
func (c *callers) identify(ctx context.Context) (context.Context, error) {
	if token, ok := tokenOf(ctx); ok {
		id, err := c.authn.Token(ctx, token)
		if err != nil {
			return nil, statusError(ctx, err)
		}
		if id == (auth.Identity{}) {
			return ctx, nil // nobody asks while authentication is disabled
		}
		return c.as(ctx, id), nil
	}
	if c.certificates {
		if name, ok := commonName(ctx); ok {
			return c.as(ctx, auth.ByCertificate(name)), nil
		}
	}
	return ctx, nil
}

func (c *callers) as(ctx context.Context, id auth.Identity) context.Context {
	if r := auditedOf(ctx); r != nil {
		r.user = id.User
	}
	return auth.With(ctx, id)
}

// tokenOf returns the token of a call: the gateway passes one on as it came.
func tokenOf(ctx context.Context) (token string, ok bool) {
	for _, field := range [2]string{rpctypes.TokenFieldNameGRPC, rpctypes.TokenFieldNameSwagger} {
		if v := metadata.ValueFromIncomingContext(ctx, field); len(v) > 0 {
			return strings.TrimPrefix(v[0], bearerPrefix), true
		}
	}
	return "", false
}

// gatewayField is in the metadata of calls that some gateway makes for its clients.
const gatewayField = "grpcgateway-accept"

// commonName returns the name in a client's certificate. A gateway's certificate says nothing about its clients, and
// this server's own gateway has none.
func commonName(ctx context.Context) (name string, ok bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", false
	}
	secure, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", false
	}
	for _, chain := range secure.State.VerifiedChains {
		if len(chain) > 0 {
			return chain[0].Subject.CommonName, len(metadata.ValueFromIncomingContext(ctx, gatewayField)) == 0
		}
	}
	return "", false
}

// users knows the users and roles.
type users interface {
	Auth() *auth.State
	CheckUser(ctx context.Context) error
	CheckAdmin(ctx context.Context) error
}

// known refuses callers without credentials. What it protects must not depend on the database while that is unreachable
// or nobody needs credentials; then it decides by what this server knows.
func known(ctx context.Context, u users, noLeader <-chan struct{}) error {
	state := u.Auth()
	select {
	case <-noLeader:
		return statusError(ctx, state.Known(auth.From(ctx)))
	default:
	}
	if !state.Enabled() {
		return nil
	}
	return statusError(ctx, u.CheckUser(ctx))
}

// ended refuses callers whose token has ended, and lets those without credentials pass.
func ended(ctx context.Context, u users) error {
	if !u.Auth().Enabled() || auth.From(ctx) == (auth.Identity{}) {
		return nil
	}
	return statusError(ctx, u.CheckUser(ctx))
}

// open are the methods that need no identity: a login has none yet, and probes ask for the health.
func open(method string) bool {
	return method == "/etcdserverpb.Auth/Authenticate" || strings.HasPrefix(method, "/grpc.health.")
}

// stream identifies the caller once. Streams of many requests do it again for each of them.
func (c *callers) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	if open(info.FullMethod) {
		return handle(srv, stream)
	}
	ctx, err := c.identify(stream.Context())
	if err != nil {
		return err
	}
	if ctx != stream.Context() {
		stream = &streamWith{stream, ctx}
	}
	return handle(srv, stream)
}
