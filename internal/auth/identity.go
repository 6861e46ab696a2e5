package auth

import (
	"context"
	"math"
)

// Identity tells who calls. The zero Identity is a caller without credentials.
type Identity struct {
	User string
	// Revision is the auth revision at which the credentials were checked or signed, 0 if there are none.
	Revision uint64

	proof proof
}

// proof tells which changes end an identity.
type proof int

const (
	byNothing     proof = iota
	byCertificate       // none
	byPassword          // those that end tokens
	bySignature         // any, for requests about keys
	byInvalidToken
	byServer
)

// Server is the identity of the server itself, which may do everything.
var Server = Identity{Revision: math.MaxUint64, proof: byServer}

// Invalid is the identity of a client whose token nobody knows. Every check refuses it if authentication is enabled.
var Invalid = Identity{Revision: math.MaxUint64, proof: byInvalidToken}

// ByCertificate returns the identity of a client with a certificate for the user.
func ByCertificate(user string) Identity {
	return Identity{User: user, Revision: math.MaxUint64, proof: byCertificate}
}

// ByPassword returns the identity of a client that has given the user's password, which was checked at an auth
// revision. It ends when the user is deleted or its password changes, and when authentication is disabled.
func ByPassword(user string, revision uint64) Identity {
	return Identity{User: user, Revision: revision, proof: byPassword}
}

// BySignature returns the identity of a client with a token that was signed for the user at an auth revision. As in
// etcd, requests about keys need a new token after any change of users or roles.
func BySignature(user string, revision uint64) Identity {
	return Identity{User: user, Revision: revision, proof: bySignature}
}

type contextKey struct{}

// With returns a context for calls of id.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From returns who calls. A context that nobody has prepared is that of a caller without credentials.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(contextKey{}).(Identity)
	return id
}

type reportKey struct{}

// Reporting returns a context for requests within the process. A server that answers one of them calls report with
// whoever it has identified as the caller: the zero Identity if the request has no credentials, or while authentication
// is disabled.
func Reporting(ctx context.Context, report func(Identity)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Report tells whoever asked for it with [Reporting] that id is the caller.
func Report(ctx context.Context, id Identity) {
	if report, ok := ctx.Value(reportKey{}).(func(Identity)); ok {
		report(id)
	}
}
