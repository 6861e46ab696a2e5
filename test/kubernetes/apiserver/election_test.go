package apiserver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// The candidates' timeouts. A leader gives up long before others may take over, so that there are never two leaders,
// even on a slow machine.
const (
	lockDuration = 6 * time.Second
	lockDeadline = 3 * time.Second
	lockRetry    = 300 * time.Millisecond
)

// testLeaderElection lets three candidates elect a leader with client-go's leader election. The leader stops, twice;
// another takes over, there are never two, and the Lease's history confirms it. Leaders that release the Lease and
// leaders that vanish are both tested.
func testLeaderElection(t *testing.T, c *cluster.Cluster) {
	names, err := load.MakeNamespaces(t.Context(), c.Clients, "election", 1)
	if err != nil {
		t.Fatal(err)
	}
	var elections sync.WaitGroup
	for _, release := range []bool{true, false} {
		e := &election{
			client: c.Clients, namespace: names[0], lock: fmt.Sprintf("released-%t", release), release: release,
			started: make(chan string, 3), cancels: map[string]context.CancelFunc{},
		}
		elections.Go(func() {
			if err := e.run(t.Context()); err != nil {
				t.Errorf("election with lock %s: %v", e.lock, err)
			}
		})
	}
	elections.Wait()
}

// election is one lock and its candidates.
type election struct {
	client          kubernetes.Interface
	namespace, lock string
	release         bool // released by a leader that stops

	started chan string // candidates that became leaders
	cancels map[string]context.CancelFunc

	mu       sync.Mutex
	leading  string
	problems []string
}

func (e *election) run(ctx context.Context) error {
	const candidates = 3
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	stream, err := e.client.CoordinationV1().Leases(e.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + e.lock,
	})
	if err != nil {
		return err
	}
	defer stream.Stop()

	var running sync.WaitGroup
	for i := range candidates {
		name := fmt.Sprintf("candidate-%d", i)
		elector, err := e.elector(name)
		if err != nil {
			return err
		}
		own, stop := context.WithCancel(ctx)
		defer stop()
		e.cancels[name] = stop
		running.Go(func() { elector.Run(own) })
	}
	led := map[string]bool{}
	for len(led) < candidates {
		select {
		case name := <-e.started:
			if led[name] {
				return fmt.Errorf("%s leads again", name)
			}
			led[name] = true
			e.leave(name) // work ends before the Lease is released
			e.cancels[name]()
		case <-ctx.Done():
			return fmt.Errorf("%w after the leaders %v", ctx.Err(), led)
		}
	}
	running.Wait()
	if len(e.problems) > 0 {
		return fmt.Errorf("%v", e.problems)
	}
	last, err := e.client.CoordinationV1().Leases(e.namespace).Get(ctx, e.lock, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var previous *coordinationv1.Lease
	for previous == nil || previous.ResourceVersion != last.ResourceVersion {
		select {
		case event := <-stream.ResultChan():
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !ok {
				return fmt.Errorf("event %q with %v", event.Type, event.Object)
			}
			if err := follows(previous, lease); err != nil {
				return err
			}
			previous = lease
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// elector returns a candidate that records when it leads.
func (e *election) elector(name string) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.namespace, Name: e.lock},
			Client:     e.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: lockDuration, RenewDeadline: lockDeadline, RetryPeriod: lockRetry,
		ReleaseOnCancel: e.release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				e.enter(name)
				e.started <- name
				<-ctx.Done()
				e.leave(name)
			},
			OnStoppedLeading: func() {},
		},
	})
}

func (e *election) enter(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading != "" {
		e.problems = append(e.problems, fmt.Sprintf("%s leads at the same time as %s", name, e.leading))
	}
	e.leading = name
}

func (e *election) leave(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading == name {
		e.leading = ""
	}
}

// follows reports whether one version of a Lease may follow another: its holder changes only after a release or an
// expiry, and each change is counted.
func follows(previous, lease *coordinationv1.Lease) error {
	if previous == nil {
		return nil
	}
	before, now := holder(previous), holder(lease)
	transitions := *lease.Spec.LeaseTransitions - *previous.Spec.LeaseTransitions
	switch {
	case now == before, now == "":
		if transitions != 0 {
			return fmt.Errorf("%d transitions from %q to %q", transitions, before, now)
		}
		return nil
	case transitions != 1:
		return fmt.Errorf("%d transitions from %q to %q", transitions, before, now)
	case before == "":
		return nil
	}
	end := previous.Spec.RenewTime.Add(lockDuration)
	if taken := lease.Spec.AcquireTime.Time; taken.Before(end) {
		return fmt.Errorf("%q took the Lease of %q at %v, which was renewed until %v", now, before, taken, end)
	}
	return nil
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
