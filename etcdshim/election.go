package etcdshim

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/store"
)

var (
	errMissingLeader = status.Error(codes.Unknown, `"leader" field must be provided`)
	errNotLeader     = status.Error(codes.Unknown, "election: not leader")
	errNoLeader      = status.Error(codes.Unknown, "election: no leader")
)

// elections serves v3electionpb.Election with the keys that etcd's own clients use.
type elections struct {
	queues
	id   *identities
	most int
	v3electionpb.UnsafeElectionServer
}

func (s *elections) Campaign(
	ctx context.Context, r *v3electionpb.CampaignRequest,
) (*v3electionpb.CampaignResponse, error) {
	lease, err := s.session(ctx, r.Lease)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	q := s.named(r.Name)
	key := q.key(lease)
	value := append([]byte{}, r.Value...)
	if err := fits(proto.Size(campaigning(key, value, lease)), s.maxBytes); err != nil {
		return nil, clientError(ctx, err)
	}
	place, was, rev, err := q.enqueue(ctx, key, value, lease)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	if was != nil && !bytes.Equal(was.Value, value) {
		if _, err := s.proclaim(ctx, key, value, place, lease); err != nil {
			_, _ = q.dequeue(ctx, key, place)
			return nil, clientError(ctx, err)
		}
	}
	if err := q.wait(ctx, place); err != nil {
		if ctx.Err() != nil || s.stopping.Err() != nil {
			_, _ = q.dequeue(ctx, key, place) // otherwise the end of the lease removes it
		}
		return nil, clientError(ctx, err)
	}
	return &v3electionpb.CampaignResponse{
		Header: s.id.header(rev),
		Leader: &v3electionpb.LeaderKey{Name: r.Name, Key: key, Rev: place, Lease: lease},
	}, nil
}

func (s *elections) Proclaim(
	ctx context.Context, r *v3electionpb.ProclaimRequest,
) (*v3electionpb.ProclaimResponse, error) {
	l := r.Leader
	if l == nil {
		return nil, errMissingLeader
	}
	rev, err := s.proclaim(ctx, l.Key, append([]byte{}, r.Value...), l.Rev, l.Lease)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	return &v3electionpb.ProclaimResponse{Header: s.id.header(rev)}, nil
}

func (s *elections) proclaim(ctx context.Context, key, value []byte, place, lease int64) (int64, error) {
	t := &store.Txn{
		Compare: created(key, place),
		Success: []store.Op{{Put: &store.PutRequest{Key: key, Value: value, Lease: lease}}},
	}
	if err := checkTxn(t, s.most); err != nil {
		return 0, err
	}
	if err := fits(proto.Size(proclaiming(key, value, place, lease)), s.maxBytes); err != nil {
		return 0, err
	}
	res, err := s.engine.Txn(ctx, t)
	if err != nil {
		return 0, err
	}
	if !res.Succeeded {
		return 0, errNotLeader
	}
	return res.Revision, nil
}

func (s *elections) Leader(ctx context.Context, r *v3electionpb.LeaderRequest) (*v3electionpb.LeaderResponse, error) {
	row, rev, err := s.named(r.Name).first(ctx)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	if row == nil {
		return nil, errNoLeader
	}
	return &v3electionpb.LeaderResponse{Header: s.id.header(rev), Kv: keyValue(row)}, nil
}

func (s *elections) Resign(ctx context.Context, r *v3electionpb.ResignRequest) (*v3electionpb.ResignResponse, error) {
	l := r.Leader
	if l == nil {
		return nil, errMissingLeader
	}
	if len(l.Key) == 0 {
		return nil, clientError(ctx, checkDelete(&store.DeleteRequest{}))
	}
	if err := fits(proto.Size(resigning(l.Key, l.Rev)), s.maxBytes); err != nil {
		return nil, clientError(ctx, err)
	}
	rev, err := s.named(l.Name).dequeue(ctx, l.Key, l.Rev)
	if err != nil {
		return nil, clientError(ctx, err)
	}
	return &v3electionpb.ResignResponse{Header: s.id.header(rev)}, nil
}

// Observe sends every leader, and every value that a leader proclaims, starting with the current one.
func (s *elections) Observe(r *v3electionpb.LeaderRequest, stream v3electionpb.Election_ObserveServer) error {
	ctx := stream.Context()
	q := s.named(r.Name)
	send := func(row *store.Row, rev int64) error {
		return stream.Send(&v3electionpb.LeaderResponse{Header: s.id.header(rev), Kv: keyValue(row)})
	}
	for {
		leader, rev, err := q.first(ctx)
		if err != nil {
			return clientError(ctx, err)
		}
		if leader == nil {
			someone := func(e store.Event) bool { return !e.Row.Deleted }
			e, err := q.follow(ctx, store.WatchRequest{Key: q.prefix, End: q.end, StartRevision: rev}, someone)
			if err != nil {
				return clientError(ctx, err)
			}
			leader, rev = e.Row, e.Row.ModRevision
		}
		if err := send(leader, rev); err != nil {
			return err
		}
		var failed error
		over := func(e store.Event) bool {
			if !e.Row.Deleted {
				failed = send(e.Row, e.Row.ModRevision)
			}
			return e.Row.Deleted || failed != nil
		}
		if _, err := q.follow(ctx, store.WatchRequest{Key: leader.Key, StartRevision: rev + 1},
			over); err != nil {
			return clientError(ctx, err)
		}
		if failed != nil {
			return failed
		}
	}
}
