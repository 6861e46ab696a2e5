package etcdshim

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/store"
)

var (
	errTxnTooLarge = status.Error(codes.InvalidArgument,
		"etcdserver: one transaction touches too many rows; delete or read the range in parts")
	errResultTooLarge = status.Error(codes.ResourceExhausted, "etcdserver: "+store.ErrResultTooLarge.Error())
	errRejected       = status.Error(codes.InvalidArgument,
		"etcdserver: the database refused the contents of the request")
	errAlarms = status.Error(codes.ResourceExhausted,
		"etcdserver: too many alarms are raised: clear some of them (etcdctl alarm disarm)")
	errThrottled = status.Error(codes.ResourceExhausted,
		"etcdserver: too many failed logins: wait before the next one")
	errNameTooLong = status.Error(codes.InvalidArgument,
		"etcdserver: the name of a user or role has more than 32768 bytes")
	errNoPassword   = status.Error(codes.Unknown, auth.ErrNoPassword.Error())
	errVerifyOnly   = status.Error(codes.Unknown, authn.ErrVerifyOnly.Error())
	errStreamSort   = status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	errStreamFilter = status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
)

// errorTable maps the engine's errors to etcd's. The first match counts.
var errorTable = []struct{ from, to error }{
	{store.ErrTxnTooLarge, errTxnTooLarge},
	{backend.ErrTooManyRows, errTxnTooLarge},
	{store.ErrResultTooLarge, errResultTooLarge},
	{store.ErrCompacted, rpctypes.ErrGRPCCompacted},
	{store.ErrFutureRevision, rpctypes.ErrGRPCFutureRev},
	{store.ErrKeyNotFound, rpctypes.ErrGRPCKeyNotFound},
	{store.ErrLeaseNotFound, rpctypes.ErrGRPCLeaseNotFound},
	{store.ErrLeaseExists, rpctypes.ErrGRPCLeaseExist},
	{store.ErrLeaseTTL, rpctypes.ErrGRPCLeaseTTLTooLarge},
	{store.ErrQuota, rpctypes.ErrGRPCNoSpace},
	{store.ErrCorrupt, rpctypes.ErrGRPCCorrupt},
	{backend.ErrCorrupt, rpctypes.ErrGRPCCorrupt},
	{auth.ErrRootUserNotExist, rpctypes.ErrGRPCRootUserNotExist},
	{auth.ErrRootRoleNotExist, rpctypes.ErrGRPCRootRoleNotExist},
	{auth.ErrUserExists, rpctypes.ErrGRPCUserAlreadyExist},
	{auth.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty},
	{auth.ErrUserNotFound, rpctypes.ErrGRPCUserNotFound},
	{auth.ErrRoleExists, rpctypes.ErrGRPCRoleAlreadyExist},
	{auth.ErrRoleNotFound, rpctypes.ErrGRPCRoleNotFound},
	{auth.ErrRoleEmpty, rpctypes.ErrGRPCRoleEmpty},
	{auth.ErrNameTooLong, errNameTooLong},
	{auth.ErrFailed, rpctypes.ErrGRPCAuthFailed},
	{auth.ErrPermissionNotGiven, rpctypes.ErrGRPCPermissionNotGiven},
	{auth.ErrPermissionDenied, rpctypes.ErrGRPCPermissionDenied},
	{auth.ErrRoleNotGranted, rpctypes.ErrGRPCRoleNotGranted},
	{auth.ErrPermissionNotGranted, rpctypes.ErrGRPCPermissionNotGranted},
	{auth.ErrNotEnabled, rpctypes.ErrGRPCAuthNotEnabled},
	{auth.ErrInvalidToken, rpctypes.ErrGRPCInvalidAuthToken},
	{auth.ErrInvalidManagement, rpctypes.ErrGRPCInvalidAuthMgmt},
	{auth.ErrOldRevision, rpctypes.ErrGRPCAuthOldRevision},
	{auth.ErrNoPassword, errNoPassword},
	{authn.ErrVerifyOnly, errVerifyOnly},
	{authn.ErrThrottled, errThrottled},
	{store.ErrTooManyAlarms, errAlarms},
	{store.ErrTooManyRequests, rpctypes.ErrGRPCRequestTooManyRequests},
	{store.ErrClosed, rpctypes.ErrGRPCStopped},
	{store.ErrWatchClosed, rpctypes.ErrGRPCStopped},
	{backend.ErrClosed, rpctypes.ErrGRPCStopped},
	{backend.ErrNoSpace, rpctypes.ErrGRPCNoSpace},
	{backend.ErrRejected, errRejected},
	{backend.ErrUnknownOutcome, rpctypes.ErrGRPCTimeout},
	{store.ErrUnavailable, rpctypes.ErrGRPCTimeout},
	{context.DeadlineExceeded, rpctypes.ErrGRPCTimeout},
}

// statusError converts err for the client. Only the end of the request's own ctx counts as cancelled: if the engine
// stops, the request has merely met a server that is shutting down. Any other deadline is one for the database.
func statusError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); status.Code(cause) != codes.Unknown {
				return cause // why the server ended it
			}
			// At the deadline, gRPC cancels ctx by a timer of its own, which may be faster than ctx's.
			if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
				return status.FromContextError(context.DeadlineExceeded).Err()
			}
			return status.FromContextError(ctx.Err()).Err()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return rpctypes.ErrGRPCStopped
		}
	}
	if r, ok := errors.AsType[*backend.Refusal](err); ok {
		return status.Error(codes.Unavailable, "etcdserver: "+r.Reason)
	}
	for _, e := range errorTable {
		if errors.Is(err, e.from) {
			return e.to
		}
	}
	return status.Error(codes.Unknown, err.Error())
}
