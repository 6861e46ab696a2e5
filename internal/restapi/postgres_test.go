package restapi_test

import (
	"strconv"
	"strings"
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

// What one replica has acknowledged, the other shows in lists, gets and new watches.
func TestReplicas(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	for i := range 20 {
		value := strconv.Itoa(i)
		var created itemJSON
		if i == 0 {
			created = a.do("PUT", "/v1/objects/p/k", `{"value":0}`).want(201, "").item()
		} else {
			created = a.do("PUT", "/v1/objects/p/k?resourceVersion="+strconv.Itoa(i+1), `{"value":`+value+`}`).want(200,
				"").item()
		}
		if got := b.do("GET", "/v1/objects/p/k", "").want(200, "").item(); string(got.Value) != value {
			t.Fatalf("%+v, want %s", got, value)
		}
		if l := b.do("GET", "/v1/objects/p/", "").want(200,
			"").list(); l.Metadata.ResourceVersion != created.Metadata.ResourceVersion {
			t.Fatalf("%+v, want %+v", l, created)
		}
		a.do("GET", "/v1/objects/p/k?resourceVersion="+created.Metadata.ResourceVersion, "").want(200, "")
	}
	now := b.watch("/v1/objects/p/?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	state := b.watch("/v1/objects/p/k?watch=true")
	a.do("PUT", "/v1/objects/p/k?resourceVersion=21", `{"value":20}`).want(200, "")
	state.want("ADDED p/k@21=19", "MODIFIED p/k@22=20")
	now.want("MODIFIED p/k@22=20")

	a.do("PUT", "/v1/objects/p/l", `{"value":20}`).want(201, "")
	first := a.do("GET", "/v1/objects/p/?limit=1", "").want(200, "").list()
	next := "/v1/objects/p/?limit=1&continue=" + first.Metadata.Continue
	if l := b.do("GET", next, "").want(200, "").list(); keys(l) != "p/l" {
		t.Errorf("%+v", l)
	}
	a.do("DELETE", "/v1/objects/p/l", "").want(200, "")
	compact(t, a, 24)
	b.do("GET", "/v1/objects/p/?watch=true&resourceVersion=22", "").want(410, "Expired")
	if st := b.do("GET", next, "").want(410, "Expired").status(); st.Metadata.Continue == "" {
		t.Errorf("%+v", st)
	}
	b.watch("/v1/objects/p/?watch=true&resourceVersion=23").want("DELETED p/l@24")
	long := "/v1/objects/" + strings.Repeat("k", 3000)
	b.do("PUT", long, `{"value":1}`).want(201, "")
	a.do("GET", long, "").want(200, "")
}

func TestListAndWatchAreTheStateOnReplicas(t *testing.T) {
	t.Parallel()
	a, b := replicas(t)
	history(t, a, b)
}
