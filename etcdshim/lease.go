package etcdshim

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/store"
)

// lease serves etcdserverpb.Lease.
type lease struct {
	engine *store.Store
	id     *identities
	// stopping ends the keep-alive streams.
	stopping context.Context
	callers  *callers
	audit    auditor
	pb.UnsafeLeaseServer
}

// header is for answers about the store's current state; what an operation did or saw has that operation's revision.
func (s *lease) header() *pb.ResponseHeader { return s.id.header(s.engine.Revision()) }

func (s *lease) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	l, err := s.engine.LeaseGrant(ctx, r.ID, r.TTL)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.LeaseGrantResponse{Header: s.id.header(l.Revision), ID: l.ID, TTL: int64(l.Granted.Seconds())}, nil
}

func (s *lease) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	rev, err := s.engine.LeaseRevoke(ctx, r.ID)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.LeaseRevokeResponse{Header: s.id.header(rev)}, nil
}

func (s *lease) LeaseTimeToLive(
	ctx context.Context, r *pb.LeaseTimeToLiveRequest,
) (*pb.LeaseTimeToLiveResponse, error) {
	l, keys, err := s.engine.LeaseTimeToLive(ctx, r.ID, r.Keys)
	if errors.Is(err, store.ErrLeaseNotFound) {
		return &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: -1}, nil
	}
	if err != nil {
		return nil, statusError(ctx, err)
	}
	return &pb.LeaseTimeToLiveResponse{
		Header: s.id.header(l.Revision), ID: r.ID, TTL: int64(l.Remaining.Seconds()),
		GrantedTTL: int64(l.Granted.Seconds()), Keys: keys,
	}, nil
}

func (s *lease) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	all, err := s.engine.Leases(ctx)
	if err != nil {
		return nil, statusError(ctx, err)
	}
	resp := &pb.LeaseLeasesResponse{Header: s.header(), Leases: make([]*pb.LeaseStatus, len(all))}
	statuses := make([]pb.LeaseStatus, len(all))
	for i := range all {
		statuses[i].ID = all[i].ID
		resp.Leases[i] = &statuses[i]
	}
	return resp, nil
}
