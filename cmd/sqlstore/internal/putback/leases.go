package putback

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leases asks a server which leases exist, once for each.
func Leases(client *clientv3.Client) func(ctx context.Context, lease int64) (bool, error) {
	known := map[int64]bool{}
	return func(ctx context.Context, lease int64) (bool, error) {
		if lives, ok := known[lease]; ok {
			return lives, nil
		}
		resp, err := client.TimeToLive(ctx, clientv3.LeaseID(lease))
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return false, err
		}
		known[lease] = err == nil && resp.TTL > 0
		return known[lease], nil
	}
}
