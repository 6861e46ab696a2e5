package etcdshim

import (
	"context"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A stop ends everything that may wait forever, with the status that makes clients try elsewhere.
func TestStopEndsWaiting(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx := t.Context()
	locks, elections := v3lockpb.NewLockClient(s.conn), v3electionpb.NewElectionClient(s.conn)
	if _, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")}); err != nil {
		t.Fatal(err)
	}
	if _, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e")}); err != nil {
		t.Fatal(err)
	}
	ends := map[string]chan error{}
	wait := func(name string, f func() error) {
		end := make(chan error, 1)
		ends[name] = end
		go func() { end <- f() }()
	}
	wait("Lock", func() error {
		_, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")})
		return err
	})
	wait("Campaign", func() error {
		_, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e")})
		return err
	})
	s.waiters(t, "l", 2)
	s.waiters(t, "e", 2)
	for name, election := range map[string]string{"Observe": "e", "Observe without a leader": "nobody"} {
		observed, err := elections.Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte(election)})
		if err != nil {
			t.Fatal(err)
		}
		if election == "e" {
			if _, err := observed.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		wait(name, func() error {
			_, err := observed.Recv()
			return err
		})
	}
	health, err := healthpb.NewHealthClient(s.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); err != nil {
		t.Fatal(err)
	}
	wait("health", func() error {
		for {
			if _, err := health.Recv(); err != nil {
				return err
			}
		}
	})
	const watches = 2 // those of waiters
	eventually(t, "all calls are being served", func() bool { return s.Serving() == len(ends)+watches })
	s.Shutdown(context.WithoutCancel(ctx)) // without a limit
	for name, end := range ends {
		if err := <-end; status.Code(err) != codes.Unavailable || status.Convert(err).Message() !=
			"etcdserver: server stopped" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
