package etcdshim

import (
	"context"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/auth"
)

func (s *authentication) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	h, err := s.change(ctx, auth.AddRole{Name: r.Name})
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleAddResponse{Header: h}, nil
}

func (s *authentication) RoleDelete(
	ctx context.Context, r *pb.AuthRoleDeleteRequest,
) (*pb.AuthRoleDeleteResponse, error) {
	h, err := s.change(ctx, auth.DeleteRole{Name: r.Role})
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleDeleteResponse{Header: h}, nil
}

func (s *authentication) RoleGrantPermission(
	ctx context.Context, r *pb.AuthRoleGrantPermissionRequest,
) (*pb.AuthRoleGrantPermissionResponse, error) {
	c := auth.GrantPermission{Role: r.Name, Missing: r.Perm == nil}
	if r.Perm != nil {
		c.Permission = auth.Permission{Kind: auth.Kind(r.Perm.PermType), Key: r.Perm.Key, End: r.Perm.RangeEnd}
	}
	h, err := s.change(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleGrantPermissionResponse{Header: h}, nil
}

func (s *authentication) RoleRevokePermission(
	ctx context.Context, r *pb.AuthRoleRevokePermissionRequest,
) (*pb.AuthRoleRevokePermissionResponse, error) {
	h, err := s.change(ctx, auth.RevokePermission{Role: r.Role, Key: r.Key, End: r.RangeEnd})
	if err != nil {
		return nil, err
	}
	return &pb.AuthRoleRevokePermissionResponse{Header: h}, nil
}

// RoleGet is for administrators, and for users about their own roles.
func (s *authentication) RoleGet(ctx context.Context, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	state, err := s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = state.CanSeeRole(auth.From(ctx), r.Role)
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	role, ok := state.Granted(r.Role)
	if !ok {
		return nil, statusError(ctx, auth.ErrRoleNotFound)
	}
	resp := &pb.AuthRoleGetResponse{Header: s.header()}
	for _, p := range role.Permissions {
		resp.Perm = append(resp.Perm, &authpb.Permission{
			PermType: authpb.Permission_Type(p.Kind), Key: p.Key, RangeEnd: p.End,
		})
	}
	return resp, nil
}

func (s *authentication) RoleList(ctx context.Context, _ *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	state, err := s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = state.IsAdmin(auth.From(ctx))
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	resp := &pb.AuthRoleListResponse{Header: s.header()}
	for _, r := range state.Roles() {
		resp.Roles = append(resp.Roles, r.Name)
	}
	return resp, nil
}
