package storage

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/features"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// TestWatchCache runs Kubernetes' storage tests on the watch cache over the etcd3 store.
func TestWatchCache(t *testing.T) {
	servers := newServers(t)
	setupWith := func(t *testing.T, opts cacheOptions) *cached { return newCached(t, servers.client(t), opts) }
	setup := func(t *testing.T) *cached { return setupWith(t, cacheOptions{}) }
	fresh := func(t *testing.T) *cached { return newCached(t, servers.freshClient(t), cacheOptions{}) }
	uncheckedKey := func(context.Context, *testing.T, string) {} // TestStore checks what is stored
	uncheckedReads := func(*testing.T, uint64, uint64) {}        // a cache decides what it reads

	runTwice(t, []case_{
		{"Create", func(t *testing.T) { storagetesting.RunTestCreate(t.Context(), t, setup(t), uncheckedKey) }},
		{"CreateWithTTL", func(t *testing.T) { storagetesting.RunTestCreateWithTTL(t.Context(), t, setup(t)) }},
		{"CreateWithKeyExist", func(t *testing.T) {
			storagetesting.RunTestCreateWithKeyExist(t.Context(), t,
				setup(t))
		}},
		{"Get", func(t *testing.T) { storagetesting.RunTestGet(t.Context(), t, setup(t)) }},
		{"KeySchema", func(t *testing.T) { storagetesting.RunTestKeySchema(t.Context(), t, setup(t)) }},

		{"UnconditionalDelete", func(t *testing.T) {
			storagetesting.RunTestUnconditionalDelete(t.Context(), t,
				setup(t))
		}},
		{"ConditionalDelete", func(t *testing.T) { storagetesting.RunTestConditionalDelete(t.Context(), t, setup(t)) }},
		{"DeleteWithSuggestion", func(t *testing.T) {
			storagetesting.RunTestDeleteWithSuggestion(t.Context(), t,
				setup(t))
		}},
		{"DeleteWithSuggestionAndConflict", func(t *testing.T) {
			storagetesting.RunTestDeleteWithSuggestionAndConflict(t.Context(), t, setup(t))
		}},
		{"DeleteWithSuggestionOfDeletedObject", func(t *testing.T) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(t.Context(), t, setup(t))
		}},
		{"ValidateDeletionWithSuggestion", func(t *testing.T) {
			storagetesting.RunTestValidateDeletionWithSuggestion(t.Context(), t, setup(t))
		}},
		{"ValidateDeletionWithOnlySuggestionValid", func(t *testing.T) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(t.Context(), t, setup(t))
		}},
		{"DeleteWithConflict", func(t *testing.T) {
			storagetesting.RunTestDeleteWithConflict(t.Context(), t,
				setup(t))
		}},
		{"PreconditionalDeleteWithSuggestion", func(t *testing.T) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(t.Context(), t, setup(t))
		}},
		{"PreconditionalDeleteWithOnlySuggestionPass", func(t *testing.T) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(t.Context(), t, setup(t))
		}},
		{"DeleteOfUntransformableWithConflict", func(t *testing.T) {
			c := setup(t)
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(t.Context(), t, c,
				c.setFailing)
		}},
		{"DeleteOfUntransformable", func(t *testing.T) {
			c := setup(t)
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, c, c.setFailing)
		}},
		{"DeleteOfUndecodable", func(t *testing.T) {
			codec := &failingCodec{Codec: apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion)}
			c := setupWith(t, cacheOptions{codec: codec})
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, c, codec.setFailing)
		}},
		{"DeleteOfIntactExpectedCorrupt", func(t *testing.T) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(t.Context(), t, setup(t))
		}},

		{"GuaranteedUpdate", func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdate(t.Context(), t, setup(t),
				uncheckedKey)
		}},
		{"GuaranteedUpdateWithTTL", func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdateWithTTL(t.Context(), t,
				setup(t))
		}},
		{"GuaranteedUpdateChecksStoredData", func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(t.Context(), t, setup(t))
		}},
		{"GuaranteedUpdateWithConflict", func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdateWithConflict(t.Context(), t, setup(t))
		}},
		{"GuaranteedUpdateWithSuggestionAndConflict", func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(t.Context(), t, setup(t))
		}},

		{"List", func(t *testing.T) {
			c := fresh(t)
			storagetesting.RunTestList(t.Context(), t, c, c.compact, true,
				c.client.Kubernetes.(*storagetesting.KubernetesRecorder))
		}},
		{"ConsistentList", func(t *testing.T) {
			c := setup(t)
			snapshots := utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot)
			storagetesting.RunTestConsistentList(t.Context(), t, c, c.store.increaseRevision, true, true, snapshots)
		}},
		{"ListPaging", func(t *testing.T) { storagetesting.RunTestListPaging(t.Context(), t, setup(t)) }},
		{"GetListNonRecursive", func(t *testing.T) {
			c := setup(t)
			storagetesting.RunTestGetListNonRecursive(t.Context(), t, c.store.increaseRevision, c)
		}},
		{"GetListRecursivePrefix", func(t *testing.T) {
			storagetesting.RunTestGetListRecursivePrefix(t.Context(), t,
				setup(t))
		}},
		{"ListContinuation", func(t *testing.T) {
			storagetesting.RunTestListContinuation(t.Context(), t, setup(t),
				uncheckedReads)
		}},
		{"ListPaginationRareObject", func(t *testing.T) {
			storagetesting.RunTestListPaginationRareObject(t.Context(), t, setup(t), uncheckedReads)
		}},
		{"ListContinuationWithFilter", func(t *testing.T) {
			storagetesting.RunTestListContinuationWithFilter(t.Context(), t, setup(t), uncheckedReads)
		}},
		{"ListResourceVersionMatch", func(t *testing.T) {
			storagetesting.RunTestListResourceVersionMatch(t.Context(), t,
				setup(t))
		}},
		{"NamespaceScopedList", func(t *testing.T) {
			storagetesting.RunTestNamespaceScopedList(t.Context(), t, setupWith(t, cacheOptions{indexed: true}))
		}},
		{"CompactRevision", func(t *testing.T) {
			setGate(t, features.ListFromCacheSnapshot, true) // without it a cache does not follow compactions
			c := setup(t)
			storagetesting.RunTestCompactRevision(t.Context(), t, c, c.store.increaseRevision, c.compact)
		}},
		{"Stats", func(t *testing.T) {
			for _, sizes := range []bool{true, false} {
				t.Run(fmt.Sprintf("sizes=%v", sizes), func(t *testing.T) {
					setGate(t, features.SizeBasedListCostEstimate, sizes)
					c := setup(t)
					storagetesting.RunTestStats(t.Context(), t, c, c.store.codec, c.transformer, sizes)
				})
			}
		}},

		{"Watch", func(t *testing.T) { storagetesting.RunTestWatch(t.Context(), t, setup(t)) }},
		{"ClusterScopedWatch", func(t *testing.T) {
			storagetesting.RunTestClusterScopedWatch(t.Context(), t,
				setupWith(t, cacheOptions{clusterScoped: true, indexed: true}))
		}},
		{"NamespaceScopedWatch", func(t *testing.T) {
			storagetesting.RunTestNamespaceScopedWatch(t.Context(), t, setupWith(t, cacheOptions{indexed: true}))
		}},
		{"DeleteTriggerWatch", func(t *testing.T) {
			storagetesting.RunTestDeleteTriggerWatch(t.Context(), t,
				setup(t))
		}},
		{"WatchFromZero", func(t *testing.T) {
			c := setup(t)
			storagetesting.RunTestWatchFromZero(t.Context(), t, c, c.compactAndRestart)
		}},
		{"WatchFromNonZero", func(t *testing.T) { storagetesting.RunTestWatchFromNonZero(t.Context(), t, setup(t)) }},
		{"DelayedWatchDelivery", func(t *testing.T) {
			storagetesting.RunTestDelayedWatchDelivery(t.Context(), t,
				setup(t))
		}},
		{"WatchContextCancel", func(t *testing.T) {
			storagetesting.RunTestWatchContextCancel(t.Context(), t,
				setup(t))
		}},
		{"WatcherTimeout", func(t *testing.T) { storagetesting.RunTestWatcherTimeout(t.Context(), t, setup(t)) }},
		{"WatchDeleteEventObjectHaveLatestRV", func(t *testing.T) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(t.Context(), t, setup(t))
		}},
		{"WatchInitializationSignal", func(t *testing.T) {
			storagetesting.RunTestWatchInitializationSignal(t.Context(),
				t, setup(t))
		}},
		{"WatchDispatchBookmarkEvents", func(t *testing.T) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, setup(t), true)
		}},
		{"WatchBookmarksWithCorrectResourceVersion", func(t *testing.T) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(t.Context(), t, setup(t))
		}},
		{"SendInitialEventsBackwardCompatibility", func(t *testing.T) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(t.Context(), t, setup(t))
		}},
		{"WatchSemantics", func(t *testing.T) { storagetesting.RunWatchSemantics(t.Context(), t, lockstep{fresh(t)}) }},
		{"WatchSemanticInitialEventsExtended", func(t *testing.T) {
			storagetesting.RunWatchSemanticInitialEventsExtended(t.Context(), t, lockstep{setup(t)})
		}},
		{"WatchListMatchSingle", func(t *testing.T) {
			storagetesting.RunWatchListMatchSingle(t.Context(), t, lockstep{setup(t)})
		}},
	})
}
