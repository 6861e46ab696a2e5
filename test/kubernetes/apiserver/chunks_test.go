package apiserver_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testChunks lists thousands of ConfigMaps and Pods of many namespaces in chunks of 500, as kubectl does, while they
// are being written. All pages have one resource version and together are the state at it: what the watches saw, and
// what the whole list at exactly that version shows.
func testChunks(t *testing.T, c *cluster.Cluster) {
	trial := newTrial(t, c, "chunks")
	trial.Kinds = []load.Kind{load.ConfigMaps, load.Pods}
	trial.Objects *= 2
	trial.Life = load.Churn
	trial.Chunk = 500
	trial.ChangesPerList = trial.Objects / 20
	result, err := trial.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result)
	checkLive(t, c, trial)
}
