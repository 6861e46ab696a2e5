package restapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// replicas serves two replicas over one empty database.
func replicas(t *testing.T) (a, b *served) {
	t.Helper()
	dsn := pgserver.Database(t)
	var both [2]*served
	for i := range both {
		db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, MaxConns: 6})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		both[i] = serveOver(t, db, restapi.Options{}, store.Config{}, false)
		both[i].busy = true
	}
	return both[0], both[1]
}

// A watch of one replica begins after what the other has acknowledged, and knows what the other has compacted.
func TestReplicas(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	a.do("PUT", "/v1/objects/p/k", `{"value":0}`).want(201, "") // at 2
	put := func(version int) {
		t.Helper()
		a.do("PUT", fmt.Sprint("/v1/objects/p/k?resourceVersion=", version), `{"value":1}`).want(200, "")
	}
	for version := 2; version < 22; version += 2 {
		put(version)
		now := b.watch("/v1/objects/p/?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		state := b.watch("/v1/objects/p/k?watch=true")
		put(version + 1)
		changed := fmt.Sprintf("MODIFIED p/k@%d=1", version+2)
		state.want(fmt.Sprintf("ADDED p/k@%d=1", version+1), changed)
		now.want(changed)
	}
	a.do("DELETE", "/v1/objects/p/k", "").want(200, "") // at 23
	compact(t, a, 23)
	b.do("GET", "/v1/objects/p/?watch=true&resourceVersion=21", "").want(410, "Expired")
	b.watch("/v1/objects/p/?watch=true&resourceVersion=22").want("DELETED p/k@23")
}

// What one replica has acknowledged of leases, users and alarms, the other one shows.
func TestReplicasShowTheSame(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	for i := range 5 {
		id := int64(i + 1)
		a.grant(id, time.Hour, fmt.Sprint("k", i))
		var l leaseJSON
		b.do("GET", fmt.Sprintf("/v1/leases/%x", id), "").want(200, "").decode(&l)
		if l.Keys != 1 || l.RemainingTTL < 1800 || l.RemainingTTL > 3600 {
			t.Errorf("%+v", l)
		}
		all := strings.Fields(listOf(b, "/v1/leases", 2, func(l leaseJSON) string { return fmt.Sprint(l.ID, l.Keys) }))
		if len(all) != i+1 || all[i] != fmt.Sprintf("%016x1", id) {
			t.Errorf("after %d leases: %s", i+1, all)
		}
		name := fmt.Sprint("user", i)
		a.change(auth.AddUser{Name: name, NoPassword: true})
		b.do("GET", "/v1/users/"+name, "").want(200, "")
		alarm := store.Alarm{Member: uint64(i + 1), Kind: 7}
		if err := a.store.RaiseAlarm(t.Context(), alarm); err != nil {
			t.Fatal(err)
		}
		if got := b.do("GET", "/v1/alarms", "").want(200, ""); strings.Count(got.body, `"type":"7"`) != i+1 {
			t.Errorf("after %d alarms: %s", i+1, got.body)
		}
	}
}

func TestListAndWatchAreTheStateOnReplicas(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	history(t, a, b)
}

// Compactions do not expire a history that is read meanwhile without a resource version, not even those of another
// replica.
func TestHistoryBesideCompactions(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	a.write("stable", "1")
	done := make(chan struct{})
	var compacting sync.WaitGroup
	compacting.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			res, err := a.store.Put(t.Context(), &store.PutRequest{Key: []byte("hot")})
			if err == nil {
				_, err = a.store.Compact(t.Context(), res.Revision, true)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 100 {
		var h historyJSON
		[]*served{a, b}[i%2].do("GET", "/v1/objects/stable?history=true&limit=1", "").want(200, "").decode(&h)
		if len(h.Items) != 1 || h.Items[0].Metadata.ResourceVersion != "2" {
			t.Errorf("%+v", h)
		}
	}
	close(done)
	compacting.Wait()
}
