package apiserver_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testSemantics runs the tables of package semantics against kube-apiserver over plain HTTP: the answers to lists, gets
// and watches at resource versions. The compactions are the store's, which a watch cache does not notice;
// TestCompaction has those that it does.
func testSemantics(t *testing.T, store cluster.Store, c *cluster.Cluster) {
	names, err := load.MakeNamespaces(t.Context(), c.Clients, "semantics", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(names[0])
	list := c.REST.Host + "/api/v1/namespaces/" + names[0] + "/configmaps"
	contents := 0
	semantics.Run(t, semantics.Server{
		Client: c.HTTP,
		List:   list,
		Object: func(name string) string { return list + "/" + name },
		Kube:   &semantics.Kube{WatchCache: c.WatchCache},
		Put: func(ctx context.Context, name string) error {
			contents++
			object := load.ConfigMaps.New(names[0], name, fmt.Sprint(contents))
			_, err := client.Create(ctx, object, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				_, err = client.Update(ctx, object, metav1.UpdateOptions{})
			}
			return err
		},
		Delete: func(ctx context.Context, name string) error {
			return client.Delete(ctx, name, metav1.DeleteOptions{})
		},
		Compact: store.Compact,
	})
}
