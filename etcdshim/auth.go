package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/internal/store"
)

// auth serves etcdserverpb.Auth like an etcd whose auth was never enabled. Changes to users or roles are Unimplemented.
type auth struct {
	engine *store.Store
	id     *identities
	pb.UnimplementedAuthServer
}

func (s *auth) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{Header: s.id.header(s.engine.Revision()), AuthRevision: 1}, nil
}

func (s *auth) AuthEnable(context.Context, *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	return nil, rpctypes.ErrGRPCRootUserNotExist
}

func (s *auth) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}
