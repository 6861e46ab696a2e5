package sidebyside

import (
	"context"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func lockCall(r *v3lockpb.LockRequest) call {
	return unary("Lock", r, func(s *side) func(context.Context, *v3lockpb.LockRequest,
		...grpc.CallOption) (*v3lockpb.LockResponse, error) {
		return s.lock.Lock
	})
}

func unlockCall(key string) call {
	return unary("Unlock", &v3lockpb.UnlockRequest{Key: []byte(key)}, func(s *side) func(context.Context,
		*v3lockpb.UnlockRequest, ...grpc.CallOption) (*v3lockpb.UnlockResponse, error) {
		return s.lock.Unlock
	})
}

func campaignCall(r *v3electionpb.CampaignRequest) call {
	return unary("Campaign", r, func(s *side) func(context.Context, *v3electionpb.CampaignRequest,
		...grpc.CallOption) (*v3electionpb.CampaignResponse, error) {
		return s.elect.Campaign
	})
}

func proclaimCall(l *v3electionpb.LeaderKey, value string) call {
	r := &v3electionpb.ProclaimRequest{Leader: l, Value: []byte(value)}
	return unary("Proclaim", r, func(s *side) func(context.Context, *v3electionpb.ProclaimRequest,
		...grpc.CallOption) (*v3electionpb.ProclaimResponse, error) {
		return s.elect.Proclaim
	})
}

func leaderCall(name string) call {
	return unary("Leader", &v3electionpb.LeaderRequest{Name: []byte(name)}, func(s *side) func(context.Context,
		*v3electionpb.LeaderRequest, ...grpc.CallOption) (*v3electionpb.LeaderResponse, error) {
		return s.elect.Leader
	})
}

func resignCall(l *v3electionpb.LeaderKey) call {
	return unary("Resign", &v3electionpb.ResignRequest{Leader: l}, func(s *side) func(context.Context,
		*v3electionpb.ResignRequest, ...grpc.CallOption) (*v3electionpb.ResignResponse, error) {
		return s.elect.Resign
	})
}

// observeCall reads the first answer of the stream.
func observeCall(name string) call {
	r := &v3electionpb.LeaderRequest{Name: []byte(name)}
	return call{"Observe", r, func(ctx context.Context, s *side) (proto.Message, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.elect.Observe(ctx, r)
		if err != nil {
			return nil, err
		}
		a, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return a, nil
	}}
}
