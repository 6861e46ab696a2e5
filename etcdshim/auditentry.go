package etcdshim

import (
	"log/slog"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/store"
)

// describe sets what an entry says about a request: never values, passwords or tokens.
func describe(e *audit.Entry, req any) {
	switch r := req.(type) {
	case *rangeRequest:
		e.Key, e.End = r.Key, r.End
	case *putRequest:
		e.Key = r.Key
	case *deleteRequest:
		e.Key, e.End = r.Key, r.End
	case *txnRequest:
		e.Operations = operations(nil, &r.decoded)
	case *pb.CompactionRequest:
		e.Details = []slog.Attr{slog.Int64("compact_revision", r.Revision)}
	case *pb.LeaseGrantRequest:
		e.Details = leaseOf(r.ID)
	case *pb.LeaseRevokeRequest:
		e.Details = leaseOf(r.ID)
	case *pb.LeaseTimeToLiveRequest:
		e.Details = leaseOf(r.ID)
	case *pb.AlarmRequest:
		e.Details = []slog.Attr{slog.String("action", r.Action.String()), slog.String("alarm", r.Alarm.String())}
	case *v3lockpb.LockRequest:
		e.Key = r.Name
	case *v3lockpb.UnlockRequest:
		e.Key = r.Key
	case *v3electionpb.CampaignRequest:
		e.Key = r.Name
	case *v3electionpb.LeaderRequest:
		e.Key = r.Name
	case *v3electionpb.ProclaimRequest:
		e.Key = r.GetLeader().GetKey()
	case *v3electionpb.ResignRequest:
		e.Key = r.GetLeader().GetKey()
	default:
		describeUsers(e, req)
	}
}

// describeUsers is describe for the requests about users and roles.
func describeUsers(e *audit.Entry, req any) {
	about := func(name, role string) {
		for _, a := range []slog.Attr{slog.String("name", name), slog.String("role", role)} {
			if a.Value.String() != "" {
				e.Details = append(e.Details, a)
			}
		}
	}
	switch r := req.(type) {
	case *pb.AuthenticateRequest:
		about(r.Name, "")
	case *pb.AuthUserAddRequest:
		about(r.Name, "")
	case *pb.AuthUserGetRequest:
		about(r.Name, "")
	case *pb.AuthUserDeleteRequest:
		about(r.Name, "")
	case *pb.AuthUserChangePasswordRequest:
		about(r.Name, "")
	case *pb.AuthUserGrantRoleRequest:
		about(r.User, r.Role)
	case *pb.AuthUserRevokeRoleRequest:
		about(r.Name, r.Role)
	case *pb.AuthRoleAddRequest:
		about("", r.Name)
	case *pb.AuthRoleGetRequest:
		about("", r.Role)
	case *pb.AuthRoleDeleteRequest:
		about("", r.Role)
	case *pb.AuthRoleGrantPermissionRequest:
		about("", r.Name)
		e.Key, e.End = r.GetPerm().GetKey(), r.GetPerm().GetRangeEnd()
		e.Details = append(e.Details, slog.String("permission", r.GetPerm().GetPermType().String()))
	case *pb.AuthRoleRevokePermissionRequest:
		about("", r.Role)
		e.Key, e.End = r.Key, r.RangeEnd
	}
}

// leaseOf is a lease as etcdctl writes it.
func leaseOf(id int64) []slog.Attr {
	return []slog.Attr{slog.String("lease", strconv.FormatInt(id, 16))}
}

// mostAudited is the number of operations of a transaction that an entry lists.
const mostAudited = 1000

// operations appends those of a transaction: its compares and both branches.
func operations(list []audit.Operation, t *store.Txn) []audit.Operation {
	for i := range t.Compare {
		c := &t.Compare[i]
		list = append(list, audit.Operation{Branch: "compare", Key: c.Key, End: c.End})
	}
	for _, branch := range []struct {
		name string
		ops  []store.Op
	}{{"success", t.Success}, {"failure", t.Failure}} {
		for i := range branch.ops {
			if len(list) >= mostAudited {
				return list
			}
			o := audit.Operation{Branch: branch.name}
			switch op := &branch.ops[i]; {
			case op.Range != nil:
				o.Call, o.Key, o.End = "Range", op.Range.Key, op.Range.End
			case op.Put != nil:
				o.Call, o.Key = "Put", op.Put.Key
			case op.Delete != nil:
				o.Call, o.Key, o.End = "DeleteRange", op.Delete.Key, op.Delete.End
			case op.Txn != nil:
				list = operations(append(list, audit.Operation{Branch: branch.name, Call: "Txn"}), op.Txn)
				continue
			}
			list = append(list, o)
		}
	}
	return list
}

// revisionOf returns the revision of an answer, 0 if it has none.
func revisionOf(req, resp any) int64 {
	switch r := req.(type) {
	case *rangeRequest:
		if r.reply.res != nil {
			return r.reply.res.Revision
		}
	case *putRequest:
		if r.reply.res != nil {
			return r.reply.res.Revision
		}
	case *deleteRequest:
		if r.reply.res != nil {
			return r.reply.res.Revision
		}
	case *txnRequest:
		if r.reply.res != nil {
			return r.reply.res.Revision
		}
	}
	if h, ok := resp.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		return h.GetHeader().GetRevision()
	}
	return 0
}
