package storage

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// compact runs kube-apiserver's compaction at a resource version and returns that as a revision.
func compact(ctx context.Context, t *testing.T, client *kubernetes.Client, resourceVersion string) int64 {
	t.Helper()
	parsed, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatalf("compact: %v", err)
	}
	revision := int64(parsed)
	// The first call compacts unless an earlier compaction left its key: then it only returns the version for the next
	// call.
	var version, done int64
	for range 2 {
		if version, _, done, err = etcd3.Compact(ctx, client.Client, version, revision); err != nil {
			t.Fatalf("compact at %d: %v", revision, err)
		}
		if done == revision {
			return revision
		}
	}
	t.Fatalf("compacted at %d, want %d", done, revision)
	return 0
}

// waitCompacted waits until s knows of a compaction. It does if ListFromCacheSnapshot lets it watch for them.
func waitCompacted(ctx context.Context, t *testing.T, s interface{ CompactRevision() int64 }, revision int64) {
	t.Helper()
	if !utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot) {
		return
	}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, wait.ForeverTestTimeout, true,
		func(context.Context) (bool, error) {
			return s.CompactRevision() == revision, nil
		})
	if err != nil {
		t.Fatalf("the store knows of compaction at %d, want %d: %v", s.CompactRevision(), revision, err)
	}
}
