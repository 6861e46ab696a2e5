package auth

import "errors"

// Changes that the state of users and roles refuses. The texts are etcd's.
var (
	// ErrRootUserNotExist means that there is no user root, which authentication needs.
	ErrRootUserNotExist = errors.New("auth: root user does not exist")
	// ErrRootRoleNotExist means that the user root lacks the role root, which authentication needs.
	ErrRootRoleNotExist = errors.New("auth: root user does not have root role")
	// ErrUserExists means that there is a user of that name.
	ErrUserExists = errors.New("auth: user already exists")
	// ErrUserNotFound means that there is no user of that name.
	ErrUserNotFound = errors.New("auth: user not found")
	// ErrRoleExists means that there is a role of that name.
	ErrRoleExists = errors.New("auth: role already exists")
	// ErrRoleNotFound means that there is no role of that name.
	ErrRoleNotFound = errors.New("auth: role not found")
	// ErrRoleEmpty means that a role's name is empty.
	ErrRoleEmpty = errors.New("auth: role name is empty")
	// ErrNameTooLong means that the name of a user or role to add has more than [MaxName] bytes. etcd ends with such a
	// name, so it has no text for it.
	ErrNameTooLong = errors.New("auth: the name of a user or role has more than 32768 bytes")
	// ErrPermissionNotGiven means that a request to grant a permission has none.
	ErrPermissionNotGiven = errors.New("auth: permission not given")
	// ErrRoleNotGranted means that the user does not have the role that is to be revoked.
	ErrRoleNotGranted = errors.New("auth: role is not granted to the user")
	// ErrPermissionNotGranted means that the role does not have the permission that is to be revoked.
	ErrPermissionNotGranted = errors.New("auth: permission is not granted to the role")
	// ErrInvalidManagement means that a change would take root's rights away, or that a permission has no keys.
	ErrInvalidManagement = errors.New("auth: invalid auth management")
)

// Callers that are refused. The texts are etcd's.
var (
	// ErrUserEmpty means that a caller gives no credentials although authentication is enabled, or that the name of a
	// user to add is empty.
	ErrUserEmpty = errors.New("auth: user name is empty")
	// ErrFailed means that the user does not exist, or that the password is wrong.
	ErrFailed = errors.New("auth: authentication failed, invalid user ID or password")
	// ErrNoPassword means that a password was given for a user who has none, or that it cannot be decoded.
	ErrNoPassword = errors.New("auth: authentication failed, password was given for no password user")
	// ErrPermissionDenied means that no role of the user allows the request.
	ErrPermissionDenied = errors.New("auth: permission denied")
	// ErrNotEnabled means that authentication is not enabled.
	ErrNotEnabled = errors.New("auth: authentication is not enabled")
	// ErrOldRevision means that users or roles have changed since the caller's credentials were checked.
	ErrOldRevision = errors.New("auth: revision in header is old")
	// ErrInvalidToken means that a token is unknown or has ended.
	ErrInvalidToken = errors.New("auth: invalid auth token")
)
