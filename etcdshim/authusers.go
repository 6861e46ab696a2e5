package etcdshim

import (
	"context"
	"encoding/base64"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/auth"
)

func (s *authentication) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	password := r.Password
	r.Password = "" // nobody else sees it
	c := auth.AddUser{Name: r.Name, NoPassword: r.GetOptions().GetNoPassword()}
	if !c.NoPassword {
		var err error
		if c.Hash, err = s.hash(ctx, password); err != nil {
			return nil, statusError(ctx, err)
		}
	}
	h, err := s.change(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserAddResponse{Header: h}, nil
}

// hash hashes a password. Whoever may not add users gets nothing hashed: that takes much of a processor's time.
func (s *authentication) hash(ctx context.Context, password string) ([]byte, error) {
	if s.engine.Auth().IsAdmin(auth.From(ctx)) != nil {
		// That may be out of date. As in etcd, a password that is too long is refused first.
		if err := s.engine.CheckAdmin(ctx); err != nil && len(password) <= longestPassword {
			return nil, err
		}
	}
	return s.authn.Passwords.Hash(ctx, password)
}

// longestPassword is the length up to which bcrypt hashes passwords.
const longestPassword = 72

func (s *authentication) UserChangePassword(
	ctx context.Context, r *pb.AuthUserChangePasswordRequest,
) (*pb.AuthUserChangePasswordResponse, error) {
	password := r.Password
	r.Password = "" // nobody else sees it
	c := auth.ChangePassword{Name: r.Name}
	var err error
	if password != "" {
		c.Hash, err = s.hash(ctx, password)
	} else {
		c.Hash, err = s.hashed(ctx, r)
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	h, err := s.change(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserChangePasswordResponse{Header: h}, nil
}

// hashed returns the hash that a client has made itself, which etcd accepts for a new password. etcd also stores what
// is no hash, so that no password fits.
func (s *authentication) hashed(ctx context.Context, r *pb.AuthUserChangePasswordRequest) ([]byte, error) {
	hash, malformed := base64.StdEncoding.DecodeString(r.HashedPassword)
	if malformed == nil {
		return hash, nil
	}
	if err := s.engine.CheckAdmin(ctx); err != nil {
		return nil, err
	}
	if u, ok := s.engine.Auth().User(r.Name); !ok || u.NoPassword {
		return nil, nil // the change is refused, or leaves the user without a password
	}
	return nil, auth.ErrNoPassword
}

func (s *authentication) UserDelete(
	ctx context.Context, r *pb.AuthUserDeleteRequest,
) (*pb.AuthUserDeleteResponse, error) {
	h, err := s.change(ctx, auth.DeleteUser{Name: r.Name})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserDeleteResponse{Header: h}, nil
}

func (s *authentication) UserGrantRole(
	ctx context.Context, r *pb.AuthUserGrantRoleRequest,
) (*pb.AuthUserGrantRoleResponse, error) {
	h, err := s.change(ctx, auth.GrantRole{User: r.User, Role: r.Role})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserGrantRoleResponse{Header: h}, nil
}

func (s *authentication) UserRevokeRole(
	ctx context.Context, r *pb.AuthUserRevokeRoleRequest,
) (*pb.AuthUserRevokeRoleResponse, error) {
	h, err := s.change(ctx, auth.RevokeRole{User: r.Name, Role: r.Role})
	if err != nil {
		return nil, err
	}
	return &pb.AuthUserRevokeRoleResponse{Header: h}, nil
}

// UserGet is for administrators, and for users about themselves.
func (s *authentication) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	state, err := s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = state.CanSeeUser(auth.From(ctx), r.Name)
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	u, ok := state.User(r.Name)
	if !ok {
		return nil, statusError(ctx, auth.ErrUserNotFound)
	}
	return &pb.AuthUserGetResponse{Header: s.header(), Roles: u.Roles}, nil
}

func (s *authentication) UserList(ctx context.Context, _ *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	state, err := s.engine.ConfirmAuth(ctx)
	if err == nil {
		err = state.IsAdmin(auth.From(ctx))
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	resp := &pb.AuthUserListResponse{Header: s.header()}
	for _, u := range state.Users() {
		resp.Users = append(resp.Users, u.Name)
	}
	return resp, nil
}
