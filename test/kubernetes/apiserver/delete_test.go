package apiserver_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testDeleteCollection deletes the objects of a namespace that a label selects: those are deleted, each with one event,
// and the others stay.
func testDeleteCollection(t *testing.T, c *cluster.Cluster) {
	const count, label = 400, "half"
	ctx := t.Context()
	names, err := load.MakeNamespaces(ctx, c.Clients, "deletes", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Dynamic.Resource(load.Secrets.GroupVersionResource).Namespace(names[0])
	err = parallel(ctx, count, func(ctx context.Context, i int) error {
		secret := load.Secrets.New(names[0], fmt.Sprintf("secret-%d", i), "")
		secret.SetLabels(map[string]string{label: fmt.Sprint(i % 2)})
		_, err := client.Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	before, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Items) != count {
		t.Fatalf("listed %d secrets, want %d", len(before.Items), count)
	}
	stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()

	if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
		LabelSelector: label + "=0",
	}); err != nil {
		t.Fatal(err)
	}
	after, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Items) != count/2 {
		t.Errorf("%d secrets are left, want %d", len(after.Items), count/2)
	}
	for _, secret := range after.Items {
		if secret.GetLabels()[label] != "1" {
			t.Errorf("%s is left", secret.GetName())
		}
	}
	gone := map[string]bool{}
	for len(gone) < count/2 {
		event, open := <-stream.ResultChan()
		if !open {
			t.Fatalf("the watch ended after %d deletions", len(gone))
		}
		name := event.Object.(metav1.Object).GetName()
		if event.Type != watch.Deleted || gone[name] {
			t.Fatalf("%s of %s, seen before: %t", event.Type, name, gone[name])
		}
		gone[name] = true
	}
}
