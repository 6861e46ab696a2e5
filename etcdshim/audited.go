package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/audit"
)

// auditor writes calls to the audit log. It is not installed if there is none.
type auditor struct{ log *audit.Log }

// audited is what becomes known of the caller during a call.
type audited struct{ user string }

type auditedKey struct{}

func auditedOf(ctx context.Context) *audited {
	r, _ := ctx.Value(auditedKey{}).(*audited)
	return r
}

// begin returns an entry with where a call comes from.
func (a auditor) begin(ctx context.Context, method string) *audit.Entry {
	e := &audit.Entry{Call: method, Address: addressOf(ctx)}
	e.CN, _ = commonName(ctx)
	return e
}

// end writes an entry with the result of its call.
func (a auditor) end(e *audit.Entry, user string, err error) {
	e.User = user
	if e.Outcome == "" {
		e.Outcome = outcome(err)
	}
	a.log.Add(e)
}

func outcome(err error) string {
	if err == nil {
		return audit.OK
	}
	st := status.Convert(err)
	if st.Code() == codes.OK {
		return audit.OK
	}
	return st.Code().String() + ": " + st.Message()
}

func (a auditor) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error,
) {
	if !a.log.Wants(changes(info.FullMethod, req)) {
		return handle(ctx, req)
	}
	e, who := a.begin(ctx, info.FullMethod), &audited{}
	describe(e, req) // the engine may change a request while it serves it
	resp, err := handle(context.WithValue(ctx, auditedKey{}, who), req)
	if err == nil {
		e.Revision = revisionOf(req, resp)
		if granted, ok := resp.(*pb.LeaseGrantResponse); ok {
			e.Details = leaseOf(granted.ID) // the server may have chosen it
		}
	}
	a.end(e, who.user, err)
	return resp, err
}

// stream writes a stream with one request as one call. The handlers of other streams write each request themselves.
func (a auditor) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	if info.IsClientStream || !a.log.Wants(false) {
		return handle(srv, stream)
	}
	e, who := a.begin(stream.Context(), info.FullMethod), &audited{}
	s := &auditedStream{
		ServerStream: stream, ctx: context.WithValue(stream.Context(), auditedKey{}, who), entry: e,
	}
	err := handle(srv, s)
	if err == nil {
		e.Revision = revisionOf(s.req, nil)
	}
	a.end(e, who.user, err)
	return err
}

// auditedStream notes the request of a stream.
type auditedStream struct {
	grpc.ServerStream
	ctx   context.Context
	entry *audit.Entry
	req   any
}

func (s *auditedStream) Context() context.Context { return s.ctx }

func (s *auditedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil && s.req == nil {
		s.req = m
		describe(s.entry, m)
	}
	return err
}

// changing are the methods that change something, and logins. Some requests of other methods do, too; see changes.
var changing = map[string]bool{
	pb.KV_Put_FullMethodName: true, pb.KV_DeleteRange_FullMethodName: true, pb.KV_Compact_FullMethodName: true,
	pb.Lease_LeaseGrant_FullMethodName: true, pb.Lease_LeaseRevoke_FullMethodName: true,
	pb.Auth_AuthEnable_FullMethodName: true, pb.Auth_AuthDisable_FullMethodName: true,
	pb.Auth_Authenticate_FullMethodName: true,
	pb.Auth_UserAdd_FullMethodName:      true, pb.Auth_UserDelete_FullMethodName: true,
	pb.Auth_UserChangePassword_FullMethodName: true, pb.Auth_UserGrantRole_FullMethodName: true,
	pb.Auth_UserRevokeRole_FullMethodName: true, pb.Auth_RoleAdd_FullMethodName: true,
	pb.Auth_RoleDelete_FullMethodName: true, pb.Auth_RoleGrantPermission_FullMethodName: true,
	pb.Auth_RoleRevokePermission_FullMethodName: true,
	pb.Maintenance_Defragment_FullMethodName:    true, pb.Maintenance_MoveLeader_FullMethodName: true,
	pb.Maintenance_Downgrade_FullMethodName: true,
	pb.Cluster_MemberAdd_FullMethodName:     true, pb.Cluster_MemberRemove_FullMethodName: true,
	pb.Cluster_MemberUpdate_FullMethodName: true, pb.Cluster_MemberPromote_FullMethodName: true,
	"/v3lockpb.Lock/Lock": true, "/v3lockpb.Lock/Unlock": true,
	"/v3electionpb.Election/Campaign": true, "/v3electionpb.Election/Proclaim": true,
	"/v3electionpb.Election/Resign": true,
}

// changes reports whether a call belongs to the level of writes.
func changes(method string, req any) bool {
	switch r := req.(type) {
	case *txnRequest:
		return writes(&r.decoded)
	case *pb.AlarmRequest:
		return r.Action != pb.AlarmRequest_GET
	}
	return changing[method]
}
