package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testInformers starts informers, as every controller does, between writes: one that has synced contains everything
// acknowledged before it started, and then follows. They get their state from a watch with sendInitialEvents, whose end
// kube-apiserver derives from the store's progress.
func testInformers(t *testing.T, c *cluster.Cluster) {
	const rounds, perRound = 5, 100
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	names, err := load.MakeNamespaces(ctx, c.Clients, "informers", 1)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Dynamic.Resource(load.ConfigMaps.GroupVersionResource).Namespace(names[0])
	want := map[string]string{} // resource versions by name
	caches := []func() map[string]string{}
	changed := make(chan struct{}, 1)
	for round := range rounds {
		for i := range perRound {
			name := fmt.Sprintf("object-%d-%d", round, i)
			object, err := client.Create(ctx, load.ConfigMaps.New(names[0], name, ""), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want[name] = object.GetResourceVersion()
		}
		factory := informers.NewSharedInformerFactoryWithOptions(c.Clients, 0, informers.WithNamespace(names[0]))
		informer := factory.Core().V1().ConfigMaps()
		notify := func() {
			select {
			case changed <- struct{}{}:
			default: // a check is already due
			}
		}
		if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		}); err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
			t.Fatalf("informer %d did not sync", round)
		}
		held := func() map[string]string {
			objects, err := informer.Lister().List(labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			versions := map[string]string{}
			for _, object := range objects {
				versions[object.Name] = object.ResourceVersion
			}
			return versions
		}
		if got := held(); !maps.Equal(got, want) {
			t.Fatalf("informer %d synced with %d objects %v, want %d", round, len(got), slices.Sorted(maps.Keys(got)),
				len(want))
		}
		caches = append(caches, held)
	}

	for name := range want {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(want, name)
		if len(want) == perRound {
			break
		}
	}
	for i, held := range caches {
		for !maps.Equal(held(), want) {
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("informer %d holds %d objects, want %d", i, len(held()), len(want))
			}
		}
	}
}
