package kubeapiserver_test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sqlstore/sqlstore/test/kubeapiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubeapiserver/load"
)

// leaseDuration is so long that a slow machine does not take the lead away.
const leaseDuration = 20 * time.Second

// testLeases has two candidates run for leader on a Lease, as controllers do. One wins and renews the
// Lease, which a watch shows; when it gives up the other takes over, and never do both lead.
func testLeases(t *testing.T, c *cluster.Cluster) {
	const name, renewals = "leader", 10
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	names, err := load.MakeNamespaces(ctx, c.Clients, "leases", 1)
	if err != nil {
		t.Fatal(err)
	}
	leases := c.Clients.CoordinationV1().Leases(names[0])
	before, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := leases.Watch(ctx, metav1.ListOptions{
		ResourceVersion: before.ResourceVersion,
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()

	giveUp := map[string]context.CancelFunc{}
	for _, identity := range []string{"first", "second"} {
		candidate, stop := context.WithCancel(ctx)
		giveUp[identity] = stop
		ended := make(chan struct{})
		t.Cleanup(func() {
			stop()
			<-ended
		})
		go func() {
			defer close(ended)
			runForLeader(candidate, c, names[0], name, identity)
		}()
	}

	// next returns the Lease as its next event shows it.
	next := func() *coordinationv1.Lease {
		event, open := <-stream.ResultChan()
		if !open {
			t.Fatalf("the watch ended: %v", ctx.Err())
		}
		if event.Type != watch.Added && event.Type != watch.Modified {
			t.Fatalf("%s of %v", event.Type, event.Object)
		}
		return event.Object.(*coordinationv1.Lease)
	}
	lease := next()
	for range renewals {
		renewed := next()
		if *renewed.Spec.HolderIdentity != *lease.Spec.HolderIdentity {
			t.Fatalf("%s took over from %s, who had not given up", *renewed.Spec.HolderIdentity, *lease.Spec.HolderIdentity)
		}
		if !renewed.Spec.RenewTime.After(lease.Spec.RenewTime.Time) {
			t.Fatalf("renewed at %v, before at %v", renewed.Spec.RenewTime, lease.Spec.RenewTime)
		}
		lease = renewed
	}
	leader := *lease.Spec.HolderIdentity
	giveUp[leader]()
	var renewed time.Time
	for *lease.Spec.HolderIdentity == leader { // it may have renewed just before
		renewed = lease.Spec.RenewTime.Time
		lease = next()
	}
	// It gives the Lease back at once, unless its last renewal is still under way: then that runs out.
	if *lease.Spec.HolderIdentity == "" {
		lease = next()
	} else if taken := lease.Spec.AcquireTime.Sub(renewed); taken < leaseDuration {
		t.Errorf("%s took over %s after %s had renewed", *lease.Spec.HolderIdentity, taken, leader)
	}
	if holder := *lease.Spec.HolderIdentity; holder == "" || holder == leader || *lease.Spec.LeaseTransitions == 0 {
		t.Errorf("after %s had given up %q held the lease, after %d transitions", leader, holder, *lease.Spec.LeaseTransitions)
	}
}

// runForLeader tries to lead, and leads, until ctx ends.
func runForLeader(ctx context.Context, c *cluster.Cluster, namespace, name, identity string) {
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     c.Clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration,
		RenewDeadline: leaseDuration - time.Second,
		RetryPeriod:   100 * time.Millisecond,
		// The next leader need not wait for the Lease to run out.
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
}
