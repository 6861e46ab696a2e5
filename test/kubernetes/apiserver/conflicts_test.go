package apiserver_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testConflicts sends writes whose preconditions do not hold: each gets its error, and the object does not change.
func testConflicts(t *testing.T, c *cluster.Cluster) {
	ctx := t.Context()
	names, err := load.MakeNamespaces(ctx, c.Clients, "conflicts", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Clients.CoreV1().ConfigMaps(names[0])
	object := load.ConfigMaps.New(names[0], "object", "first")
	dynamic := c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(names[0])
	if _, err := dynamic.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stale, err := client.Get(ctx, "object", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newer := stale.DeepCopy()
	newer.Data["payload"] = "second"
	newer, err = client.Update(ctx, newer, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale.Data["payload"] = "lost update"
	missing := stale.DeepCopy()
	missing.Name = "missing"
	otherUID := types.UID("00000000-0000-0000-0000-000000000000")

	for _, tc := range []struct {
		name string
		do   func() error
		is   func(error) bool
	}{
		{"create existing", func() error {
			_, err := dynamic.Create(ctx, object, metav1.CreateOptions{})
			return err
		}, apierrors.IsAlreadyExists},
		{"update at an old version", func() error {
			_, err := client.Update(ctx, stale, metav1.UpdateOptions{})
			return err
		}, apierrors.IsConflict},
		{"patch at an old version", func() error {
			patch := []byte(`{"metadata":{"resourceVersion":"` + stale.ResourceVersion +
				`"},"data":{"payload":"lost"}}`)
			_, err := client.Patch(ctx, "object", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}, apierrors.IsConflict},
		{"update missing", func() error {
			_, err := client.Update(ctx, missing, metav1.UpdateOptions{})
			return err
		}, apierrors.IsNotFound},
		{"delete at an old version", func() error {
			return client.Delete(ctx, "object", metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{ResourceVersion: &stale.ResourceVersion},
			})
		}, apierrors.IsConflict},
		{"delete another incarnation", func() error {
			return client.Delete(ctx, "object", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
				UID: &otherUID,
			}})
		}, apierrors.IsConflict},
		{"delete missing", func() error {
			return client.Delete(ctx, "missing", metav1.DeleteOptions{})
		}, apierrors.IsNotFound},
		{"get missing", func() error {
			_, err := client.Get(ctx, "missing", metav1.GetOptions{})
			return err
		}, apierrors.IsNotFound},
	} {
		if err := tc.do(); !tc.is(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
		got, err := client.Get(ctx, "object", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.ResourceVersion != newer.ResourceVersion || got.Data["payload"] != "second" {
			t.Fatalf("%s left version %s with %q, want %s with %q",
				tc.name, got.ResourceVersion, got.Data["payload"], newer.ResourceVersion, "second")
		}
	}
}
