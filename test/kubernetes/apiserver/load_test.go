package apiserver_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

// testLoad writes objects of all kinds from several writers; every watch and every list during the writes must agree
// with what was acknowledged.
func testLoad(t *testing.T, c *cluster.Cluster) {
	trial := newTrial(t, c, "load")
	result, err := trial.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result)
	checkLive(t, c, trial)
}

// newTrial prepares a load in new namespaces whose names begin with the prefix.
func newTrial(t *testing.T, c *cluster.Cluster, prefix string) *load.Trial {
	t.Helper()
	const namespaces, writers = 20, 8
	names, err := load.MakeNamespaces(t.Context(), c.Clients, prefix, namespaces)
	if err != nil {
		t.Fatal(err)
	}
	return &load.Trial{
		Config:  load.Config{Kinds: load.Kinds, Namespaces: names, Objects: objects(t), Writers: writers},
		Prefix:  prefix,
		Client:  c.Dynamic,
		History: load.NewHistory(),
	}
}

// checkLive lists all kinds of the trial and compares them with the last acknowledged change of
// every object.
func checkLive(t *testing.T, c *cluster.Cluster, trial *load.Trial) {
	t.Helper()
	live := trial.History.Live()
	for _, kind := range trial.Kinds {
		list, err := load.ListChunks(t.Context(), c.Dynamic, load.Scope{Kind: kind, Prefix: trial.Prefix}, 500)
		if err != nil {
			t.Fatal(err)
		}
		if err := list.CheckItems(live); err != nil {
			t.Error(err)
		}
	}
}
