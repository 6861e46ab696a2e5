package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testLists lists the objects of many namespaces in chunks of several sizes, some of which divide their number:
// together the pages contain all of them, by namespace and name.
func testLists(t *testing.T, c *cluster.Cluster) {
	const perNamespace = 150
	names, err := load.MakeNamespaces(t.Context(), c.Clients, "lists", 10)
	if err != nil {
		t.Fatal(err)
	}
	var want []load.Key
	group, ctx := errgroup.WithContext(t.Context())
	for _, namespace := range names {
		var keys []load.Key
		for i := range perNamespace {
			// Numbers of different lengths, which sort differently as text.
			keys = append(keys, load.Key{Resource: "configmaps", Namespace: namespace, Name: fmt.Sprintf("name-%d", i)})
		}
		want = append(want, keys...)
		client := c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(namespace)
		group.Go(func() error {
			for _, key := range keys {
				object := load.ConfigMaps.New(namespace, key.Name, key.String())
				if _, err := client.Create(ctx, object, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, func(a, b load.Key) int { return strings.Compare(a.String(), b.String()) })

	for _, limit := range []int64{1500, 500, 150, 77} {
		list, err := load.ListChunks(t.Context(), c.Dynamic, load.Scope{Kind: load.ConfigMaps, Prefix: "lists"}, limit)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(list.Keys, want) {
			t.Errorf("limit %d: listed %d objects %v, want %d: %v", limit, len(list.Keys), list.Keys, len(want), want)
		}
	}
	for i, namespace := range names {
		scope := load.Scope{Kind: load.ConfigMaps, Namespace: namespace, Prefix: "lists"}
		list, err := load.ListChunks(t.Context(), c.Dynamic, scope, 50)
		if err != nil {
			t.Fatal(err)
		}
		if own := want[i*perNamespace : (i+1)*perNamespace]; list.Pages != 3 || !slices.Equal(list.Keys, own) {
			t.Errorf("%s: listed %v on %d pages, want %v on 3", namespace, list.Keys, list.Pages, own)
		}
	}
}
