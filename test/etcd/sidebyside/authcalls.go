package sidebyside

import (
	"context"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// authCall makes a call from a method of the Auth service.
func authCall[Q, A proto.Message](method string, req Q,
	f func(pb.AuthClient, context.Context, Q, ...grpc.CallOption) (A, error),
) call {
	return unary(method, req, func(s *side) func(context.Context, Q, ...grpc.CallOption) (A, error) {
		return func(ctx context.Context, req Q, o ...grpc.CallOption) (A, error) { return f(s.auth, ctx, req, o...) }
	})
}

func userAdd(name, password string, options *authpb.UserAddOptions) call {
	return authCall("UserAdd", &pb.AuthUserAddRequest{Name: name, Password: password, Options: options},
		pb.AuthClient.UserAdd)
}

func userDelete(name string) call {
	return authCall("UserDelete", &pb.AuthUserDeleteRequest{Name: name}, pb.AuthClient.UserDelete)
}

func changePassword(name, password, hashed string) call {
	return authCall("UserChangePassword",
		&pb.AuthUserChangePasswordRequest{Name: name, Password: password, HashedPassword: hashed},
		pb.AuthClient.UserChangePassword)
}

func grantRole(user, role string) call {
	return authCall("UserGrantRole", &pb.AuthUserGrantRoleRequest{User: user, Role: role}, pb.AuthClient.UserGrantRole)
}

func revokeRole(user, role string) call {
	return authCall("UserRevokeRole", &pb.AuthUserRevokeRoleRequest{Name: user, Role: role},
		pb.AuthClient.UserRevokeRole)
}

func userGet(name string) call {
	return authCall("UserGet", &pb.AuthUserGetRequest{Name: name}, pb.AuthClient.UserGet)
}

func userList() call { return authCall("UserList", &pb.AuthUserListRequest{}, pb.AuthClient.UserList) }

func roleAdd(name string) call {
	return authCall("RoleAdd", &pb.AuthRoleAddRequest{Name: name}, pb.AuthClient.RoleAdd)
}

func roleDelete(name string) call {
	return authCall("RoleDelete", &pb.AuthRoleDeleteRequest{Role: name}, pb.AuthClient.RoleDelete)
}

func roleGet(name string) call {
	return authCall("RoleGet", &pb.AuthRoleGetRequest{Role: name}, pb.AuthClient.RoleGet)
}

func roleList() call { return authCall("RoleList", &pb.AuthRoleListRequest{}, pb.AuthClient.RoleList) }

func grantPermission(role string, p *authpb.Permission) call {
	return authCall("RoleGrantPermission", &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: p},
		pb.AuthClient.RoleGrantPermission)
}

func revokePermission(role string, key, end []byte) call {
	return authCall("RoleRevokePermission", &pb.AuthRoleRevokePermissionRequest{Role: role, Key: key, RangeEnd: end},
		pb.AuthClient.RoleRevokePermission)
}

func authEnable() call {
	return switching(true, authCall("AuthEnable", &pb.AuthEnableRequest{}, pb.AuthClient.AuthEnable))
}

func authDisable() call {
	return switching(false, authCall("AuthDisable", &pb.AuthDisableRequest{}, pb.AuthClient.AuthDisable))
}

// switching makes a call that enables or disables authentication.
func switching(enabled bool, c call) call {
	send := c.send
	c.send = func(ctx context.Context, s *side) (proto.Message, error) {
		m, err := send(ctx, s)
		if err == nil && s.rotation != nil {
			s.rotation.enabled.Store(enabled)
		}
		return m, err
	}
	return c
}

func authStatus() call {
	return authCall("AuthStatus", &pb.AuthStatusRequest{}, pb.AuthClient.AuthStatus)
}

func authenticate(name, password string) call {
	return authCall("Authenticate", &pb.AuthenticateRequest{Name: name, Password: password},
		pb.AuthClient.Authenticate)
}
