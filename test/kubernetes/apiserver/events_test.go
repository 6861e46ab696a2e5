package apiserver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// eventLife is how long the store keeps an Event: kube-apiserver attaches it to a lease of the store.
const eventLife = 10 * time.Second

var eventTTL = fmt.Sprintf("--event-ttl=%s", eventLife)

// testEventsExpire creates Events: the store deletes each when it expires, not earlier, with a watch event.
func testEventsExpire(t *testing.T, c *cluster.Cluster) {
	const count = 200
	// Generous: kube-apiserver adds up to a minute because it shares leases between objects.
	ctx, cancel := context.WithTimeout(t.Context(), eventLife+2*time.Minute)
	defer cancel()
	names, err := load.MakeNamespaces(ctx, c.Clients, "events", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Clients.CoreV1().Events(names[0])
	stream := watchFromNow(ctx, t, client)

	start := time.Now()
	err = parallel(ctx, count, func(ctx context.Context, i int) error {
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: names[0], Name: "pod"},
			Reason:         "Tested",
		}
		_, err := client.Create(ctx, event, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	state := map[string]watch.EventType{}
	for gone := 0; gone < count; {
		event, open := <-stream.ResultChan()
		if !open {
			t.Fatalf("the watch ended after %d deletions: %v", gone, ctx.Err())
		}
		name := event.Object.(metav1.Object).GetName()
		switch {
		case event.Type == watch.Added && state[name] == "":
		case event.Type == watch.Deleted && state[name] == watch.Added:
			gone++
			if age := time.Since(start); age < eventLife {
				t.Errorf("%s is gone after %s, want %s at least", name, age, eventLife)
			}
		default:
			t.Fatalf("%s of %s after %q", event.Type, name, state[name])
		}
		state[name] = event.Type
	}
	left, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 0 {
		t.Errorf("%d events are left", len(left.Items))
	}
}
