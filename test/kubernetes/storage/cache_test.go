package storage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	clientfeatures "k8s.io/client-go/features"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// registryPrefix is kube-apiserver's default --etcd-prefix, which the tests expect in a watch cache's requests.
const registryPrefix = "/registry"

// cached is a watch cache over an etcd3 store.
type cached struct {
	*cacher.CacheDelegator
	*transformer
	client  *kubernetes.Client
	store   *store
	options cacheOptions
}

// cacheOptions differ between tests.
type cacheOptions struct {
	codec         runtime.Codec // nil: JSON
	clusterScoped bool          // objects have no namespace in their keys
	indexed       bool          // by node name and namespace, as kube-apiserver indexes pods
}

func newCached(t *testing.T, client *kubernetes.Client, opts cacheOptions) *cached {
	t.Helper()
	c := &cached{client: client, options: opts}
	c.start(t)
	return c
}

// start makes a new store with a new watch cache over it, as a start of kube-apiserver does, and waits until it is
// ready.
func (c *cached) start(t *testing.T) {
	t.Helper()
	c.store = newStore(t, c.client, storeOptions{prefix: registryPrefix, codec: c.options.codec})
	c.transformer = c.store.transformer
	// The first list fails, as it may in practice, so that the retry is tested, too. If the cache fills itself by a
	// watch, there is no list.
	failures := 1
	if clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		failures = 0
	}
	below := &storagetesting.StorageInjectingListErrors{Interface: c.store.Interface, Errors: failures}
	config := cacher.Config{
		Storage:             below,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       pods,
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      podPrefix,
		KeyFunc: func(obj runtime.Object) (string, error) {
			return storage.NamespaceKeyFunc(podPrefix, obj)
		},
		GetAttrsFunc: podAttrs,
		NewFunc:      newPod,
		NewListFunc:  newPodList,
		Indexers:     &toolscache.Indexers{},
		Codec:        c.store.codec,
		Clock:        hastyClock{},
	}
	if c.options.clusterScoped {
		config.KeyFunc = func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(podPrefix, obj) }
	}
	if c.options.indexed {
		config.IndexerFuncs = map[string]storage.IndexerFunc{
			"spec.nodeName": func(obj runtime.Object) string { return obj.(*example.Pod).Spec.NodeName },
		}
		config.Indexers = &toolscache.Indexers{
			"f:spec.nodeName": func(obj any) ([]string, error) {
				return []string{obj.(*example.Pod).Spec.NodeName},
					nil
			},
			"f:metadata.namespace": func(obj any) ([]string, error) {
				return []string{obj.(*example.Pod).Namespace},
					nil
			},
		}
	}
	cache, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		t.Fatalf("new watch cache: %v", err)
	}
	delegator := cacher.NewCacheDelegator(cache, below)
	t.Cleanup(func() {
		delegator.Stop()
		cache.Stop()
	})
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, wait.ForeverTestTimeout, true,
		func(context.Context) (bool, error) {
			return below.ErrorsConsumed()
		})
	if err != nil {
		t.Fatalf("the watch cache has not listed: %v", err)
	}
	if err := cache.Wait(t.Context()); err != nil {
		t.Fatalf("the watch cache is not ready: %v", err)
	}
	c.CacheDelegator = delegator
}

// compact compacts the store and waits until the cache has dropped older revisions.
func (c *cached) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	revision := compact(ctx, t, c.client, resourceVersion)
	waitCompacted(ctx, t, c, revision)
}

// compactAndRestart compacts the store and restarts store and cache. A running cache keeps serving watches from its own
// history, whatever has been compacted below it.
func (c *cached) compactAndRestart(ctx context.Context, t *testing.T, resourceVersion string) {
	compact(ctx, t, c.client, resourceVersion)
	c.start(t)
}

// lockstep is a cached whose Create returns only when the cache has the object.
type lockstep struct{ *cached }

func (l lockstep) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := l.cached.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, wait.ForeverTestTimeout, true,
		func(ctx context.Context) (bool, error) {
			got := newPod()
			err := l.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, got)
			if storage.IsNotFound(err) {
				return false, nil
			}
			return err == nil && equality.Semantic.DeepEqual(got, out), err
		})
}

// podAttrs returns a pod's labels and the fields that selectors may name.
func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

// hastyClock makes a watch cache look for compactions ten times a second instead of every 15 s, its only timer that
// long.
type hastyClock struct{ clock.RealClock }

type hastyTimer struct{ clock.Timer }

func (c hastyClock) NewTimer(d time.Duration) clock.Timer {
	return hastyTimer{c.RealClock.NewTimer(hasten(d))}
}

func (t hastyTimer) Reset(d time.Duration) bool { return t.Timer.Reset(hasten(d)) }

func hasten(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return 100 * time.Millisecond
	}
	return d
}
