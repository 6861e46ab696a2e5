package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/store"
)

// authentication serves etcdserverpb.Auth.
type authentication struct {
	engine *store.Store
	id     *identities
	authn  *authn.Authenticator
	pb.UnsafeAuthServer
}

func (s *authentication) header() *pb.ResponseHeader { return s.id.header(s.engine.Revision()) }

// change makes a change of users and roles. The engine checks whether the caller may.
func (s *authentication) change(ctx context.Context, c auth.Change) (*pb.ResponseHeader, error) {
	if _, err := s.engine.ChangeAuth(ctx, c); err != nil {
		return nil, statusError(ctx, err)
	}
	return s.header(), nil
}

func (s *authentication) AuthEnable(ctx context.Context, _ *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	h, err := s.change(ctx, auth.Enable{})
	if err != nil {
		return nil, err
	}
	return &pb.AuthEnableResponse{Header: h}, nil
}

func (s *authentication) AuthDisable(ctx context.Context, _ *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	h, err := s.change(ctx, auth.Disable{})
	if err != nil {
		return nil, err
	}
	return &pb.AuthDisableResponse{Header: h}, nil
}

// AuthStatus is for everybody, except with a token that has ended.
func (s *authentication) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	state, err := s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = state.Valid(auth.From(ctx))
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.AuthStatusResponse{
		Header: s.header(), Enabled: state.Enabled(), AuthRevision: state.Revision(),
	}, nil
}

func (s *authentication) Authenticate(
	ctx context.Context, r *pb.AuthenticateRequest,
) (*pb.AuthenticateResponse, error) {
	password := r.Password
	r.Password = "" // nobody else sees it
	token, err := s.authn.Login(ctx, r.Name, password, addressOf(ctx))
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.AuthenticateResponse{Header: s.header(), Token: token}, nil
}
