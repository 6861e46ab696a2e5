package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/store"
)

var errSessionExpired = status.Error(codes.Unknown, "mutex: session is expired")

// locks serves v3lockpb.Lock with the keys that etcd's own clients use, so that both exclude each other.
type locks struct {
	queues
	id *identities
	v3lockpb.UnsafeLockServer
}

func (s *locks) Lock(ctx context.Context, r *v3lockpb.LockRequest) (*v3lockpb.LockResponse, error) {
	lease, err := s.session(ctx, r.Lease)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	q := s.named(r.Name)
	key := q.key(lease)
	if err := fits(proto.Size(locking(q.prefix, key, lease)), s.maxBytes); err != nil {
		return nil, clientError(ctx, err)
	}
	place, _, _, err := q.enqueue(ctx, key, []byte{}, lease)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	if err := q.wait(ctx, place); err != nil {
		_, _ = q.dequeue(ctx, key, place) // otherwise the end of the lease removes it
		return nil, clientError(ctx, err)
	}
	// The lease may have ended during the wait.
	res, err := s.engine.Range(ctx, &store.RangeRequest{Key: key})
	if err != nil {
		_, _ = q.dequeue(ctx, key, place)
		return nil, clientError(ctx, err)
	}
	if len(res.Rows) == 0 {
		return nil, errSessionExpired
	}
	return &v3lockpb.LockResponse{Header: s.id.header(res.Revision), Key: key}, nil
}

func (s *locks) Unlock(ctx context.Context, r *v3lockpb.UnlockRequest) (*v3lockpb.UnlockResponse, error) {
	d := &store.DeleteRequest{Key: r.Key}
	if err := checkDelete(d); err != nil {
		return nil, clientError(ctx, err)
	}
	if err := fits(proto.Size(&pb.DeleteRangeRequest{Key: r.Key}), s.maxBytes); err != nil {
		return nil, clientError(ctx, err)
	}
	res, err := s.engine.Delete(ctx, d)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	return &v3lockpb.UnlockResponse{Header: s.id.header(res.Revision)}, nil
}
