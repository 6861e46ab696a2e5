package storage

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// case_ is one subtest.
type case_ struct {
	name string
	run  func(*testing.T)
}

// runTwice runs the cases with and without those features of Kubernetes 1.37 that change what it requires of a store:
// RangeStream instead of pages, the watch cache's first fill by a watch instead of a list, lists at old revisions from
// the cache instead of the store.
func runTwice(t *testing.T, cases []case_) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprintf("features=%v", enabled), func(t *testing.T) {
			setGate(t, features.EtcdRangeStream, enabled)
			setGate(t, features.ConcurrentWatchObjectDecode, enabled)
			setGate(t, features.ListFromCacheSnapshot, enabled)
			clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, enabled)
			checkServerFeatures(t)
			for _, c := range cases {
				t.Run(c.name, c.run)
			}
		})
	}
}

func setGate(t *testing.T, feature featuregate.Feature, enabled bool) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, feature, enabled)
}

// checkServerFeatures fails a run in which Kubernetes found that the server lacks RangeStream or progress requests. It
// silently works around that, and all other tests pass.
func checkServerFeatures(t *testing.T) {
	before := etcdfeature.DefaultFeatureSupportChecker
	checker := etcdfeature.NewDefaultFeatureSupportChecker()
	etcdfeature.DefaultFeatureSupportChecker = checker
	t.Cleanup(func() {
		etcdfeature.DefaultFeatureSupportChecker = before
		for _, feature := range []storage.Feature{storage.RangeStream, storage.RequestWatchProgress} {
			if !checker.Supports(feature) {
				t.Errorf("Kubernetes found no support for %s", feature)
			}
		}
	})
}
