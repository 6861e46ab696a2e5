package etcdshim

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// What locks and elections write is limited like all other writes. The suite against etcd compares the exact limits.
func TestLimitOfLocks(t *testing.T) {
	const limit = 1000
	s := serve(t, Options{MaxRequestBytes: limit}, store.Config{})
	ctx, large := t.Context(), bytes.Repeat([]byte("x"), limit)
	locks, elections := v3lockpb.NewLockClient(s.conn), v3electionpb.NewElectionClient(s.conn)
	led, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e")})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"Lock": func() error {
			_, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: large})
			return err
		},
		"Unlock": func() error {
			_, err := locks.Unlock(ctx, &v3lockpb.UnlockRequest{Key: large})
			return err
		},
		"Campaign": func() error {
			_, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("f"), Value: large})
			return err
		},
		"a second Campaign": func() error {
			_, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{
				Name: []byte("e"), Value: large, Lease: led.Leader.Lease,
			})
			return err
		},
		"Proclaim": func() error {
			_, err := elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: led.Leader, Value: large})
			return err
		},
		"Resign": func() error {
			_, err := elections.Resign(ctx, &v3electionpb.ResignRequest{Leader: &v3electionpb.LeaderKey{Key: large}})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); status.Code(err) != codes.Unknown ||
			status.Convert(err).Message() != rpctypes.ErrorDesc(rpctypes.ErrGRPCRequestTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil || r.Count != 1 {
		t.Errorf("%d keys, %v; want the leader's", r.GetCount(), err)
	}
}
