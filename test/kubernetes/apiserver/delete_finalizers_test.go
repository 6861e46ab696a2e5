package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// testDeleteCollectionAmongWrites deletes hundreds of objects by label while others are created: the selected objects
// are deleted, with one event each, and the new ones stay.
func testDeleteCollectionAmongWrites(t *testing.T, c *cluster.Cluster) {
	const old, fresh = 600, 200
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client := newConfigMaps(t, c, "collection")
	create := func(n int, age string) error {
		return parallel(ctx, n, func(ctx context.Context, i int) error {
			_, err := client.Create(ctx, labelled(fmt.Sprintf("%s-%d", age, i), age), metav1.CreateOptions{})
			return err
		})
	}
	if err := create(old, "old"); err != nil {
		t.Fatal(err)
	}
	stream := watchFromNow(ctx, t, client)

	created := make(chan error, 1)
	go func() { created <- create(fresh, "fresh") }()
	if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
		LabelSelector: "age=old",
	}); err != nil {
		t.Error(err)
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	after, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(after.Items, func(c corev1.ConfigMap) bool { return c.Labels["age"] == "old" }); i >= 0 ||
		len(after.Items) != fresh {
		t.Errorf("%d objects are left (an old one at %d), want %d fresh ones", len(after.Items), i, fresh)
	}
	seen := map[string]watch.EventType{}
	for len(seen) < old+fresh {
		select {
		case event := <-stream.ResultChan():
			object, ok := event.Object.(*corev1.ConfigMap)
			want := watch.Added
			if ok && object.Labels["age"] == "old" {
				want = watch.Deleted
			}
			if !ok || event.Type != want || seen[object.Name] != "" {
				t.Fatalf("event %q of %v after %q", event.Type, event.Object, seen[object.GetName()])
			}
			seen[object.Name] = event.Type
		case <-ctx.Done():
			t.Fatalf("%v after %d events, want %d", ctx.Err(), len(seen), old+fresh)
		}
	}
}

// testDeleteCollectionFinalizers deletes collections of objects with finalizers: their own, or the one with which
// kube-apiserver leaves a foreground or orphaning deletion to the garbage collector, which does not run here. They are
// marked, and deleted when the last finalizer is removed.
func testDeleteCollectionFinalizers(t *testing.T, c *cluster.Cluster) {
	const count, own = 60, "example.com/hold"
	for _, tc := range []struct {
		name        string
		propagation metav1.DeletionPropagation
		finalizers  []string // during the deletion
	}{
		{"background", metav1.DeletePropagationBackground, []string{own}},
		{"foreground", metav1.DeletePropagationForeground, []string{own, metav1.FinalizerDeleteDependents}},
		{"orphan", metav1.DeletePropagationOrphan, []string{own, metav1.FinalizerOrphanDependents}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		client := newConfigMaps(t, c, "finalizers-"+tc.name)
		if err := parallel(ctx, count, func(ctx context.Context, i int) error {
			object := labelled(fmt.Sprintf("object-%d", i), "old")
			object.Finalizers = []string{own}
			_, err := client.Create(ctx, object, metav1.CreateOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		err := client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &tc.propagation},
			metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held, err := client.List(ctx, metav1.ListOptions{LabelSelector: "age=old"})
		if err != nil {
			t.Fatal(err)
		}
		if len(held.Items) != count {
			t.Fatalf("%s: %d objects are left, want all %d", tc.name, len(held.Items), count)
		}
		for _, object := range held.Items {
			slices.Sort(object.Finalizers)
			if object.DeletionTimestamp == nil || !slices.Equal(object.Finalizers,
				slices.Sorted(slices.Values(tc.finalizers))) {
				t.Fatalf("%s: %s is being deleted since %v with finalizers %v, want %v",
					tc.name, object.Name, object.DeletionTimestamp, object.Finalizers, tc.finalizers)
			}
		}
		stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: held.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		if err := parallel(ctx, count, func(ctx context.Context, i int) error {
			_, err := client.Patch(ctx, held.Items[i].Name, types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := countDeleted(ctx, stream, count); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		left, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(left.Items) != 0 {
			t.Errorf("%s: %d objects outlived their finalizers", tc.name, len(left.Items))
		}
	}
}

func labelled(name, age string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"age": age}}}
}
