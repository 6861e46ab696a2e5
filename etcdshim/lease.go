package etcdshim

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/internal/auth"
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

func (s *lease) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	done := make(chan error, 1)
	go func() { done <- s.keepAlive(stream) }()
	select {
	case err := <-done:
		return err
	case <-stream.Context().Done():
		return statusError(stream.Context(), stream.Context().Err())
	case <-s.stopping.Done():
		return rpctypes.ErrGRPCStopped
	}
}

func (s *lease) keepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ctx, err := s.callers.identify(stream.Context()) // the token may have ended since the last request
		if err != nil {
			return err
		}
		// The header is made first: a client that sees a renewal at a revision may rely on the lease at that revision.
		resp := &pb.LeaseKeepAliveResponse{Header: s.header(), ID: r.ID}
		resp.TTL, err = s.engine.LeaseRenew(ctx, r.ID)
		if errors.Is(err, store.ErrLeaseNotFound) {
			resp.TTL, err = 0, nil
		}
		s.renewed(ctx, r.ID, err)
		if err != nil {
			return statusError(ctx, err)
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// renewed writes a keep-alive to the audit log.
func (s *lease) renewed(ctx context.Context, id int64, err error) {
	if !s.audit.log.Wants(false) {
		return
	}
	e := s.audit.begin(ctx, pb.Lease_LeaseKeepAlive_FullMethodName)
	e.Details = leaseOf(id)
	s.audit.end(e, auth.From(ctx).User, statusError(ctx, err))
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
