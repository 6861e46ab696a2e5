package etcdshim

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

func TestLease(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	ctx := t.Context()
	g, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1})
	if err != nil || g.ID <= 0 || g.TTL != 2 || g.Header.Revision != 1 {
		t.Fatalf("grant: %v, %v", g, err)
	}
	if g, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: -5, TTL: 600}); err != nil || g.ID != -5 ||
		g.TTL != 600 {
		t.Fatalf("grant of a negative id: %v, %v", g, err)
	}
	for _, c := range []struct {
		req  *pb.LeaseGrantRequest
		code codes.Code
	}{
		{&pb.LeaseGrantRequest{ID: -5, TTL: 600}, codes.FailedPrecondition},
		{&pb.LeaseGrantRequest{TTL: 9_000_000_001}, codes.OutOfRange},
	} {
		if _, err := s.lease.LeaseGrant(ctx, c.req); status.Code(err) != c.code {
			t.Errorf("%v: %v", c.req, err)
		}
	}
	for _, key := range []string{"b", "a"} {
		if _, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Lease: -5}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.kv.Put(ctx, &pb.PutRequest{Key: []byte("a"), Lease: 99}); status.Code(err) != codes.NotFound {
		t.Errorf("put with an unknown lease: %v", err)
	}
	ttl, err := s.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: -5, Keys: true})
	if err != nil || ttl.GrantedTTL != 600 || ttl.TTL < 590 || len(ttl.Keys) != 2 || string(ttl.Keys[0]) != "a" {
		t.Errorf("time to live: %v, %v", ttl, err)
	}
	if ttl, err := s.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: 99}); err != nil || ttl.TTL != -1 ||
		ttl.ID != 99 {
		t.Errorf("time to live of an unknown lease: %v, %v", ttl, err)
	}
	if l, err := s.lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{}); err != nil || len(l.Leases) != 2 {
		t.Errorf("leases: %v, %v", l, err)
	}
	keep, err := s.lease.LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int64]int64{-5: 600, 99: 0} {
		if err := keep.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
		if r, err := keep.Recv(); err != nil || r.ID != id || r.TTL != want {
			t.Errorf("keep-alive of %d: %v, %v", id, r, err)
		}
	}
	if r, err := s.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: -5}); err != nil || r.Header.Revision != 4 {
		t.Errorf("revoke: %v, %v", r, err)
	}
	if _, err := s.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: -5}); status.Code(err) != codes.NotFound {
		t.Errorf("revoke again: %v", err)
	}
	if r, err := s.kv.Range(ctx, &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}); err != nil ||
		r.Count != 0 {
		t.Errorf("keys of a revoked lease: %v, %v", r, err)
	}
}
