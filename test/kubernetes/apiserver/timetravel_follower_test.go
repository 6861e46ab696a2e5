package apiserver_test

import (
	"maps"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// follower is an informer of a namespace, and what its events add up to, as in a controller.
type follower struct {
	c        *cluster.Cluster
	kind     load.Kind
	informer cache.SharedIndexInformer

	mu   sync.Mutex
	told map[string]string // resource versions by name
}

// follow starts an informer, until the test ends.
func follow(t *testing.T, c *cluster.Cluster, kind load.Kind, namespace string) *follower {
	t.Helper()
	f := &follower{
		c: c, kind: kind, told: map[string]string{},
		informer: dynamicinformer.NewFilteredDynamicInformer(c.Dynamic, kind.GroupVersionResource, namespace, 0,
			cache.Indexers{}, nil).Informer(),
	}
	if _, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.put,
		UpdateFunc: func(_, object any) { f.put(object) },
		DeleteFunc: f.delete,
	}); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { f.informer.RunWithContext(t.Context()) })
	t.Cleanup(running.Wait)
	if !cache.WaitForCacheSync(t.Context().Done(), f.informer.HasSynced) {
		t.Fatal("an informer did not sync")
	}
	return f
}

func (f *follower) put(object any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := object.(*unstructured.Unstructured)
	f.told[u.GetName()] = u.GetResourceVersion()
}

func (f *follower) delete(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.told, object.(*unstructured.Unstructured).GetName())
}

// views returns the resource versions by name, as the cache has them and as the events add up.
func (f *follower) views() map[string]map[string]string {
	cached := map[string]string{}
	for _, object := range f.informer.GetStore().List() {
		u := object.(*unstructured.Unstructured)
		cached[u.GetName()] = u.GetResourceVersion()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return map[string]map[string]string{"cache": cached, "events": maps.Clone(f.told)}
}
