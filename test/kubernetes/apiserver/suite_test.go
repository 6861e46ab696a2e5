// Package apiserver_test runs a stock kube-apiserver on the store under test and uses it as a cluster does, over
// the datastore and with the replicas that package datastore reads from the environment. SQLSTORE_TEST_TARGET=etcd runs
// the same on etcd; SQLSTORE_TEST_LENGTH sets how many objects a load writes.
//
// A new case is a function like those listed in TestKubeAPIServer, in a separate file; a case that needs its own
// cluster is a Test function.
package apiserver_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// TestKubeAPIServer runs every case on a kube-apiserver with a watch cache and on one without. The cases share each
// kube-apiserver, in separate namespaces.
func TestKubeAPIServer(t *testing.T) {
	cases := []struct {
		name string
		run  func(*testing.T, *cluster.Cluster)
	}{
		{"Load", testLoad},
		{"Lists", testLists},
		{"Chunks", testChunks},
		{"Informers", testInformers},
		{"Bookmarks", testBookmarks},
		{"Conflicts", testConflicts},
		{"DeleteCollection", testDeleteCollection},
		{"EventsExpire", testEventsExpire},
		{"Kubectl", testKubectl},
		{"GatewayAPI", testGatewayAPI},
		{"ServerSideApply", testServerSideApply},
		{"ConcurrentApply", testConcurrentApply},
		{"DeleteCollectionAmongWrites", testDeleteCollectionAmongWrites},
		{"DeleteCollectionFinalizers", testDeleteCollectionFinalizers},
		{"LeaseRenewals", testLeaseRenewals},
		{"LeaderElection", testLeaderElection},
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			store := cluster.StartStore(t)
			c := cluster.Start(t, store, server.config)
			t.Run("Semantics", func(t *testing.T) { testSemantics(t, store, c) })
			for _, tc := range cases {
				t.Run(tc.name, func(t *testing.T) { tc.run(t, c) })
			}
		})
	}
}

// servers are the configurations of kube-apiserver that every case must work with.
var servers = []struct {
	name   string
	config cluster.Config
}{
	{"WatchCache", cluster.Config{WatchCache: true, Args: []string{eventTTL}}},
	{"NoWatchCache", cluster.Config{WatchCache: false, Args: []string{eventTTL}}},
}

// objects returns how many objects a load writes: few enough for half a minute, unless the environment says otherwise.
func objects(t *testing.T) int {
	t.Helper()
	return env.Length.Count(t, 1000)
}
