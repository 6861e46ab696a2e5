package apiserver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testLeaseRenewals renews Leases as the nodes of a cluster do, all at once: every renewal is one event, and no Lease's
// renewal time goes back.
func testLeaseRenewals(t *testing.T, c *cluster.Cluster) {
	const holders, renewals = 40, 10
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	names, err := load.MakeNamespaces(ctx, c.Clients, "renewals", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Clients.CoordinationV1().Leases(names[0])
	stream := watchFromNow(ctx, t, client)

	written := newLedger()
	err = parallel(ctx, holders, func(ctx context.Context, i int) error {
		holder, seconds, now := fmt.Sprintf("node-%d", i), int32(40), metav1.NowMicro()
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: holder},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
				RenewTime: &now,
			},
		}
		lease, err := client.Create(ctx, lease, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := written.add(lease); err != nil {
			return err
		}
		for range renewals {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			// At the version of the last renewal, without reading: only one node writes a Lease.
			if lease, err = client.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("renew by %s: %w", holder, err)
			}
			if err := written.add(lease); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	renewed := map[string]time.Time{}
	err = written.check(ctx, stream, func(object runtime.Object) error {
		lease := object.(*coordinationv1.Lease)
		if lease.Spec.RenewTime.Time.Before(renewed[lease.Name]) {
			return fmt.Errorf("%s was renewed at %v, before that at %v", lease.Name, lease.Spec.RenewTime,
				renewed[lease.Name])
		}
		renewed[lease.Name] = lease.Spec.RenewTime.Time
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if want := holders * (renewals + 1); len(written.writes) != want {
		t.Errorf("%d resource versions for %d writes", len(written.writes), want)
	}
}
