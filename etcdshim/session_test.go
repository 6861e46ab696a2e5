package etcdshim

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// waiters waits until a queue has n keys.
func (s *served) waiters(t *testing.T, name string, n int) {
	t.Helper()
	w := s.watchStream(t)
	w.create(&pb.WatchCreateRequest{Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), StartRevision: 1})
	for have := 0; have < n; {
		for _, e := range w.next().Events {
			if e.Kv.Version == 1 {
				have++
			}
		}
	}
}

func TestLock(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	locks := v3lockpb.NewLockClient(s.conn)
	first, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		key []byte
		err error
	}
	second := make(chan answer, 1)
	go func() {
		r, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")})
		second <- answer{r.GetKey(), err}
	}()
	s.waiters(t, "l", 2)
	limited, giveUp := context.WithCancel(ctx)
	third := make(chan error, 1)
	go func() {
		_, err := locks.Lock(limited, &v3lockpb.LockRequest{Name: []byte("l")})
		third <- err
	}()
	s.waiters(t, "l", 3)
	giveUp()
	if err := <-third; status.Code(err) != codes.Canceled {
		t.Errorf("third: %v", err)
	}
	select {
	case a := <-second:
		t.Fatalf("two hold the lock: %q and %q, %v", first.Key, a.key, a.err)
	default:
	}
	if _, err := locks.Unlock(ctx, &v3lockpb.UnlockRequest{Key: first.Key}); err != nil {
		t.Fatal(err)
	}
	a := <-second
	if a.err != nil || len(a.key) == 0 {
		t.Fatalf("second: %q, %v", a.key, a.err)
	}
	if _, err := locks.Lock(ctx, &v3lockpb.LockRequest{
		Name:  []byte("l"),
		Lease: 12345,
	}); status.Code(err) != codes.Unknown {
		t.Errorf("lock with an unknown lease: %v", err)
	}
}

func TestElection(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	elections := v3electionpb.NewElectionClient(s.conn)
	name := []byte("e")
	if _, err := elections.Leader(ctx, &v3electionpb.LeaderRequest{
		Name: name,
	}); status.Convert(err).Message() != "election: no leader" {
		t.Errorf("leader of an election without candidates: %v", err)
	}
	observed, err := elections.Observe(ctx, &v3electionpb.LeaderRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	sees := func(want string) {
		t.Helper()
		r, err := observed.Recv()
		if err != nil || string(r.Kv.Value) != want {
			t.Fatalf("observed %v, %v; want %s", r, err, want)
		}
	}
	first, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Value: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	sees("one")
	second := make(chan *v3electionpb.CampaignResponse, 1)
	go func() {
		r, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Value: []byte("two")})
		if err != nil {
			t.Error(err)
		}
		second <- r
	}()
	s.waiters(t, "e", 2)
	if l, err := elections.Leader(ctx, &v3electionpb.LeaderRequest{Name: name}); err != nil ||
		string(l.Kv.Value) != "one" {
		t.Errorf("leader %v, %v", l, err)
	}
	if _, err := elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{
		Leader: first.Leader,
		Value:  []byte("uno"),
	}); err != nil {
		t.Error(err)
	}
	sees("uno")
	if _, err := elections.Resign(ctx, &v3electionpb.ResignRequest{Leader: first.Leader}); err != nil {
		t.Error(err)
	}
	sees("two")
	if r := <-second; string(r.GetLeader().GetName()) != "e" {
		t.Errorf("second %v", r)
	}
	_, err = elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: first.Leader, Value: []byte("x")})
	if status.Convert(err).Message() != "election: not leader" {
		t.Errorf("proclaimed after resigning: %v", err)
	}
}
