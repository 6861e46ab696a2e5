package storage

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// TestStore runs Kubernetes' storage tests on the etcd3 store.
func TestStore(t *testing.T) {
	servers := newServers(t)
	setup := func(t *testing.T) *store { return newStore(t, servers.client(t), storeOptions{}) }
	fresh := func(t *testing.T) *store { return newStore(t, servers.freshClient(t), storeOptions{}) }
	counting := func(t *testing.T) *store {
		setGate(t, features.ListFromCacheSnapshot, false) // after a second it reads again, to follow compactions
		return setup(t)
	}
	failing := func(t *testing.T) (*store, *failingCodec) {
		codec := &failingCodec{Codec: apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion)}
		return newStore(t, servers.client(t), storeOptions{codec: codec}), codec
	}

	runTwice(t, []case_{
		{"Create", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestCreate(t.Context(), t, s, s.checkStored)
		}},
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
		{"DeleteOfUndecodableWithConflict", func(t *testing.T) {
			s, codec := failing(t)
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(t.Context(), t, s,
				codec.setFailing)
		}},
		{"DeleteOfUntransformable", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, s, s.setFailing)
		}},
		{"DeleteOfUndecodable", func(t *testing.T) {
			s, codec := failing(t)
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, s, codec.setFailing)
		}},
		{"DeleteOfIntactExpectedCorrupt", func(t *testing.T) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(t.Context(), t, setup(t))
		}},

		{"GuaranteedUpdate", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestGuaranteedUpdate(t.Context(), t, s, s.checkStored)
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
		{"TransformationFailure", func(t *testing.T) {
			storagetesting.RunTestTransformationFailure(t.Context(), t,
				setup(t))
		}},

		{"List", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestList(t.Context(), t, s, s.compact, false,
				s.client.Kubernetes.(*storagetesting.KubernetesRecorder))
		}},
		{"ConsistentList", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestConsistentList(t.Context(), t, s, s.increaseRevision, false, true, false)
		}},
		{"ListPaging", func(t *testing.T) { storagetesting.RunTestListPaging(t.Context(), t, setup(t)) }},
		{"GetListNonRecursive", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestGetListNonRecursive(t.Context(), t, s.increaseRevision, s)
		}},
		{"GetListRecursivePrefix", func(t *testing.T) {
			storagetesting.RunTestGetListRecursivePrefix(t.Context(), t,
				setup(t))
		}},
		{"GetListWithErrorAggregation", func(t *testing.T) {
			s := setup(t)
			s.Interface = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s.Interface, pods)
			storagetesting.RunTestGetListWithErrorAggregation(t.Context(), t, s, errCorrupt())
		}},
		{"GetListWithoutErrorAggregation", func(t *testing.T) {
			setGate(t, features.AllowUnsafeMalformedObjectDeletion, false)
			storagetesting.RunTestGetListWithoutErrorAggregation(t.Context(), t, setup(t), errCorrupt())
		}},
		{"ListContinuation", func(t *testing.T) {
			s := counting(t)
			storagetesting.RunTestListContinuation(t.Context(), t, s, s.checkReads)
		}},
		{"ListPaginationRareObject", func(t *testing.T) {
			s := counting(t)
			storagetesting.RunTestListPaginationRareObject(t.Context(), t, s, s.checkReads)
		}},
		{"ListContinuationWithFilter", func(t *testing.T) {
			s := counting(t)
			storagetesting.RunTestListContinuationWithFilter(t.Context(), t, s, s.checkReads)
		}},
		{"ListInconsistentContinuation", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestListInconsistentContinuation(t.Context(), t, s, s.compact)
		}},
		{"ListResourceVersionMatch", func(t *testing.T) {
			storagetesting.RunTestListResourceVersionMatch(t.Context(), t,
				setup(t))
		}},
		{"NamespaceScopedList", func(t *testing.T) {
			storagetesting.RunTestNamespaceScopedList(t.Context(), t,
				setup(t))
		}},
		{"CompactRevision", func(t *testing.T) {
			setGate(t, features.ListFromCacheSnapshot, true) // without it a store does not follow compactions
			s := setup(t)
			storagetesting.RunTestCompactRevision(t.Context(), t, s, s.increaseRevision, s.compact)
		}},
		{"Stats", func(t *testing.T) {
			for _, sizes := range []bool{true, false} {
				t.Run(fmt.Sprintf("sizes=%v", sizes), func(t *testing.T) {
					s := setup(t)
					if sizes {
						if err := s.EnableResourceSizeEstimation(s.keys); err != nil {
							t.Fatal(err)
						}
					}
					storagetesting.RunTestStats(t.Context(), t, s, s.codec, s.transformer, sizes)
				})
			}
		}},

		{"Watch", func(t *testing.T) { storagetesting.RunTestWatch(t.Context(), t, setup(t)) }},
		{"ClusterScopedWatch", func(t *testing.T) {
			storagetesting.RunTestClusterScopedWatch(t.Context(), t,
				setup(t))
		}},
		{"NamespaceScopedWatch", func(t *testing.T) {
			storagetesting.RunTestNamespaceScopedWatch(t.Context(), t,
				setup(t))
		}},
		{"DeleteTriggerWatch", func(t *testing.T) {
			storagetesting.RunTestDeleteTriggerWatch(t.Context(), t,
				setup(t))
		}},
		{"WatchFromZero", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunTestWatchFromZero(t.Context(), t, s, s.compact)
		}},
		{"WatchFromNonZero", func(t *testing.T) { storagetesting.RunTestWatchFromNonZero(t.Context(), t, setup(t)) }},
		{"DelayedWatchDelivery", func(t *testing.T) {
			storagetesting.RunTestDelayedWatchDelivery(t.Context(), t,
				setup(t))
		}},
		{"WatchError", func(t *testing.T) { storagetesting.RunTestWatchError(t.Context(), t, setup(t)) }},
		{"WatchErrorIsBlockingFurtherEvents", func(t *testing.T) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(t.Context(), t, setup(t))
		}},
		{"WatchWithUnsafeDelete", func(t *testing.T) {
			storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, setup(t), errCorrupt())
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
		{"ProgressNotify", func(t *testing.T) {
			s := setup(t)
			storagetesting.RunOptionalTestProgressNotify(t.Context(), t, s, s.increaseRevision)
		}},
		{"WatchDispatchBookmarkEvents", func(t *testing.T) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, setup(t), false)
		}},
		{"SendInitialEventsBackwardCompatibility", func(t *testing.T) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(t.Context(), t, setup(t))
		}},
		{"WatchSemantics", func(t *testing.T) { storagetesting.RunWatchSemantics(t.Context(), t, fresh(t)) }},
		{"WatchSemanticInitialEventsExtended", func(t *testing.T) {
			storagetesting.RunWatchSemanticInitialEventsExtended(t.Context(), t, setup(t))
		}},
		{"WatchListMatchSingle", func(t *testing.T) {
			storagetesting.RunWatchListMatchSingle(t.Context(), t,
				setup(t))
		}},
	})
}

// maxPage is the largest page that the etcd3 store grows to, its private maxLimit.
const maxPage = 10_000

// checkReads compares a list's reads with pages that double from pageSize on: as many requests, and each object decoded
// once. pageSize 0 is one request for everything.
func (s *store) checkReads(t *testing.T, pageSize, objects uint64) {
	requests := uint64(1)
	if pageSize > 0 {
		// The first page counts as one object, as Kubernetes' own check has it.
		for page, sum := pageSize, uint64(1); sum < objects; requests++ {
			page = min(2*page, maxPage)
			sum += page
		}
	}
	if got := s.prefixer.GetReadsAndReset(); got != objects {
		t.Errorf("%d objects decoded, want %d", got, objects)
	}
	recorder := s.client.KV.(*storagetesting.KVRecorder)
	if got := recorder.GetReadsAndReset() + recorder.GetStreamReadsAndReset(); got != requests {
		t.Fatalf("%d range requests, want %d", got, requests)
	}
}
