package etcdshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/snapshot"
)

// Hash returns the hash of the file that Snapshot would send, as etcd hashes its file.
func (s *maintenance) Hash(ctx context.Context, _ *pb.HashRequest) (*pb.HashResponse, error) {
	x, err := s.engine.Export(ctx)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	defer x.Close()
	sum, err := snapshot.Hash(ctx, x)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.HashResponse{Header: s.id.header(x.Revision), Hash: sum}, nil
}

// HashKV returns etcd's hash of the rows up to a revision, 0 for the current one.
func (s *maintenance) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	x, err := s.engine.Export(ctx)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	defer x.Close()
	revision := r.Revision
	if revision == 0 {
		revision = x.Revision
	}
	sum, err := snapshot.HashKV(ctx, x, revision)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.HashKVResponse{
		Header: s.id.header(x.Revision), Hash: sum, CompactRevision: x.CompactRevision(), HashRevision: revision,
	}, nil
}
