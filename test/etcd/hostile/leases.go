package hostile

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func leaseAbuses() []abuse {
	return []abuse{
		{name: "leases granted and revoked", short: 4_000, full: 100_000, attack: grantAndRevoke},
		{name: "keepalives of no lease", short: 50_000, full: 500_000, attack: keepAlives},
		{name: "keepalives that nobody reads", short: 50_000, full: 500_000, lingers: true, attack: unreadKeepAlives},
		{name: "lists of 10,000 leases", short: 500, full: 10_000, keeps: 16 << 20, attack: listLeases},
	}
}

// leases calls f n times, over a few connections with several calls at a time.
func leases(t *target, n int, f func(pb.LeaseClient) error) (int, error) {
	return spread(n, connections, func(_, n int) (int, error) {
		conn, err := t.grpc()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		client := pb.NewLeaseClient(conn)
		return spread(n, 16, func(_, n int) (int, error) {
			for i := range n {
				if err := f(client); err != nil {
					return i, err
				}
			}
			return n, nil
		})
	})
}

func grantAndRevoke(ctx context.Context, t *target, n int) (int, error) {
	return leases(t, n, func(c pb.LeaseClient) error {
		l, err := c.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600})
		if err == nil {
			_, err = c.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: l.ID})
		}
		return err
	})
}

func listLeases(ctx context.Context, t *target, n int) (int, error) {
	const granted = 10_000
	if done, err := leases(t, granted, func(c pb.LeaseClient) error {
		_, err := c.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 3600})
		return err
	}); err != nil || done < granted {
		return 0, err
	}
	return leases(t, n, func(c pb.LeaseClient) error {
		_, err := c.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		return err
	})
}

// keepAliveStep sends keepalives on one stream of the connection.
func keepAliveStep() func(*framed) error {
	raw := message(&pb.LeaseKeepAliveRequest{ID: 1})
	return func(f *framed) error {
		if f.next == 1 {
			if _, err := f.call(pb.Lease_LeaseKeepAlive_FullMethodName, nil, false); err != nil {
				return err
			}
		}
		return f.WriteData(1, false, raw)
	}
}

func keepAlives(ctx context.Context, t *target, n int) (int, error) {
	ctx, cancel := briefly(ctx)
	defer cancel()
	return t.flood(ctx, n, keepAliveStep())
}

func unreadKeepAlives(ctx context.Context, t *target, n int) (int, error) {
	ctx, cancel := briefly(ctx)
	defer cancel()
	step := keepAliveStep()
	return spread(n, connections, func(_, n int) (int, error) {
		f, err := t.http2(ctx)
		if err != nil {
			return 0, err
		}
		keep(f.Conn)
		for i := range n {
			if !taken(step(f)) {
				return i, nil
			}
		}
		return n, nil
	})
}
