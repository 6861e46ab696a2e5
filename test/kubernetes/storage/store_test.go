package storage

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

// podPrefix is where the tests keep their pods, below the store's own prefix.
const podPrefix = "/pods/"

// valuePrefix precedes every stored value, added by the store's transformer.
const valuePrefix = "test!"

var pods = schema.GroupResource{Resource: "pods"}

// store is an etcd3 store, like kube-apiserver's for each resource, with the parts below it that tests use.
type store struct {
	storage.Interface
	*transformer
	client   *kubernetes.Client
	codec    runtime.Codec
	prefixer *storagetesting.PrefixTransformer // what transformer contains initially
}

// storeOptions differ between tests; their zero values are replaced by defaults.
type storeOptions struct {
	// prefix is the store's part of the key space, as --etcd-prefix.
	prefix string
	codec  runtime.Codec
}

func newStore(tb testing.TB, client *kubernetes.Client, opts storeOptions) *store {
	tb.Helper()
	if opts.codec == nil {
		opts.codec = apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion)
	}
	leases := etcd3.NewDefaultLeaseManagerConfig()
	leases.ReuseDurationSeconds = 1 // the default adds up to a minute to each TTL that a test waits for
	prefixer := newPrefixer()
	transformer := newTransformer(prefixer)

	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil) // follows compactions, makes none
	tb.Cleanup(compactor.Stop)
	versioner := storage.APIObjectVersioner{}
	etcd, err := etcd3.New(client, compactor, opts.codec, newPod, newPodList, opts.prefix, podPrefix, pods,
		transformer, leases, etcd3.NewDefaultDecoder(opts.codec, versioner), versioner)
	if err != nil {
		tb.Fatalf("new etcd3 store: %v", err)
	}
	tb.Cleanup(etcd.Close)
	return &store{Interface: etcd, transformer: transformer, client: client, codec: opts.codec, prefixer: prefixer}
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

// keys lists the keys of all pods, as a watch cache does for a store's statistics.
func (s *store) keys(ctx context.Context) ([]string, error) {
	resp, err := s.client.KV.Get(ctx, podPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// increaseRevision makes one revision that touches no pod.
func (s *store) increaseRevision(ctx context.Context, t *testing.T) int64 {
	resp, err := s.client.KV.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatalf("write outside the pods: %v", err)
	}
	return resp.Header.Revision
}

// checkStored checks the stored value of a key.
func (s *store) checkStored(ctx context.Context, t *testing.T, key string) {
	resp, err := s.client.KV.Get(ctx, key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) != 1 {
		t.Fatalf("%s has %d values, want 1", key, len(resp.Kvs))
	}
	obj, err := runtime.Decode(s.codec, resp.Kvs[0].Value[len(valuePrefix):])
	if err != nil {
		t.Fatalf("decode %s: %v", key, err)
	}
	//nolint:staticcheck // that the deprecated SelfLink is empty is the point
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
		t.Errorf("%s is stored with resourceVersion %q and selfLink %q, want neither", key, pod.ResourceVersion,
			pod.SelfLink)
	}
}

// compact compacts at a resource version like kube-apiserver's compactor, which leaves a trace in a key, and waits
// until the store has read that.
func (s *store) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	revision := compact(ctx, t, s.client, resourceVersion)
	waitCompacted(ctx, t, s, revision)
}

var _ value.Transformer = (*transformer)(nil)
