package restapi_test

import (
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend/postgres"
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

func TestListAndWatchAreTheStateOnReplicas(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	history(t, a, b)
}
