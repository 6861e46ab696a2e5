package sidebyside

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// spread is a connection to several replicas, which takes calls to them in turn.
type spread struct {
	all  []*grpc.ClientConn
	next atomic.Uint64
}

func (s *spread) pick() *grpc.ClientConn { return s.all[s.next.Add(1)%uint64(len(s.all))] }

func (s *spread) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	conn := s.pick()
	if local(req) {
		if _, err := catchUp(ctx, conn); err != nil {
			return err
		}
	}
	if err := conn.Invoke(ctx, method, req, reply, opts...); err != nil {
		return err
	}
	return level(ctx, conn, reply)
}

func (s *spread) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn := s.pick()
	stream, err := conn.NewStream(ctx, desc, method, opts...)
	return caughtUp{stream, conn}, err
}

// caughtUp is a stream to one replica. Before each request that the replica may answer from its local state, it makes
// the replica catch up.
type caughtUp struct {
	grpc.ClientStream
	conn *grpc.ClientConn
}

func (s caughtUp) SendMsg(req any) error {
	if local(req) {
		if _, err := catchUp(s.Context(), s.conn); err != nil {
			return err
		}
	}
	return s.ClientStream.SendMsg(req)
}

func (s caughtUp) RecvMsg(reply any) error {
	if err := s.ClientStream.RecvMsg(reply); err != nil {
		return err
	}
	return level(s.Context(), s.conn, reply)
}

// local reports whether a member may answer from its local state, in etcd as well.
func local(req any) bool {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return r.Serializable
	case *pb.TxnRequest:
		return !slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
			return !op.GetRequestRange().GetSerializable()
		})
	case *pb.WatchRequest: // etcd's begins at the member's own revision, sqlstore's after all acknowledged writes
		return r.GetCreateRequest() != nil && servers.TargetIsEtcd()
	case *pb.HashKVRequest, *pb.StatusRequest:
		return true
	}
	return false
}

// level sets the revision of an answer about leases to the newest one. Leases have no revisions: an answer about them
// must be true on every replica at once, but its header has the revision that the answering member has seen.
func level(ctx context.Context, conn *grpc.ClientConn, reply any) error {
	var h *pb.ResponseHeader
	switch a := reply.(type) {
	case *pb.LeaseTimeToLiveResponse:
		h = a.Header
	case *pb.LeaseLeasesResponse:
		h = a.Header
	case *pb.LeaseKeepAliveResponse:
		h = a.Header
	default:
		return nil
	}
	rev, err := catchUp(ctx, conn)
	if err == nil && rev < h.GetRevision() {
		err = fmt.Errorf("revision %d after %d", rev, h.GetRevision())
	}
	h.Revision = rev
	return err
}

// catchUp makes a replica catch up with all acknowledged writes, by a linearizable read, and returns the revision.
func catchUp(ctx context.Context, conn *grpc.ClientConn) (int64, error) {
	r, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, CountOnly: true})
	return r.GetHeader().GetRevision(), err
}
