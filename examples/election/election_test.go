package main

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/sqlstore/sqlstore/examples/internal/program"
	"github.com/sqlstore/sqlstore/sqlstoretest"
)

// Of three candidates one leads. When it is killed, and when its successor stops, another takes over.
func TestElection(t *testing.T) {
	server, path := sqlstoretest.Start(t), program.Build(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	candidates := map[string]*program.Program{}
	for _, name := range []string{"a", "b", "c"} {
		candidates[name] = program.Start(t, t.TempDir(), path,
			"-name", name, "-endpoint", server.Endpoints()[0], "-ttl", "2")
	}
	works := client.Watch(t.Context(), workKey, clientv3.WithRev(1))
	leader := ""
	// next returns the first that works and did not before; nobody else may until then.
	next := func() string {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			select {
			case res := <-works:
				if res.Err() != nil {
					t.Fatal(res.Err())
				}
				for _, e := range res.Events {
					if name := string(e.Kv.Value); name != leader {
						return name
					}
				}
			case <-deadline:
				t.Fatalf("nobody replaced %q", leader)
			}
		}
	}
	leader = next()
	candidates[leader].Await(t, leader+" leads")
	candidates[leader].Kill(t)
	delete(candidates, leader)
	leader = next()
	candidates[leader].Await(t, leader+" leads")
	candidates[leader].Stop(t)
	delete(candidates, leader)
	leader = next()
	candidates[leader].Await(t, leader+" leads")
	if len(candidates) != 1 {
		t.Errorf("%d candidates are left", len(candidates))
	}
}

// A leader whose session has ended changes nothing.
func TestReplacedLeader(t *testing.T) {
	server := sqlstoretest.Start(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	win := func(name string) (*concurrency.Session, *concurrency.Election) {
		session, err := concurrency.NewSession(client)
		if err != nil {
			t.Fatal(err)
		}
		election := concurrency.NewElection(session, electionPrefix)
		if err := election.Campaign(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		return session, election
	}
	session, frozen := win("frozen")
	if _, err := client.Revoke(t.Context(), session.Lease()); err != nil { // as its end would
		t.Fatal(err)
	}
	_, successor := win("successor")
	if err := work(t.Context(), client, successor, "successor"); err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), client, frozen, "frozen"); !errors.Is(err, errReplaced) {
		t.Errorf("the replaced leader's write: %v, want %v", err, errReplaced)
	}
	if got, err := client.Get(t.Context(), workKey); err != nil || string(got.Kvs[0].Value) != "successor" {
		t.Errorf("%v, %v", got, err)
	}
}
