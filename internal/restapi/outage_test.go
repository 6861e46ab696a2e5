package restapi_test

import (
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// While the database does not answer, requests that need it fail in time, watches end, and reads from memory go on.
func TestDatabaseOutOfReach(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: server.Database(t), MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := serveOver(t, db, restapi.Options{}, store.Config{}, false)
	s.do("PUT", "/v1/objects/p/k", `{"value":1}`).want(201, "")
	w := s.watch("/v1/objects/p/?watch=true")
	w.want("ADDED p/k@2=1")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Unpause() }() // a paused one cannot be removed
	w.want("ERROR 503 ServiceUnavailable")
	w.wantEnd()
	s.do("GET", "/v1/objects/p/k?resourceVersion=0", "").want(200, "")
	if l := s.do("GET", "/v1/objects/p/?resourceVersion=2", "").want(200, "").list(); keys(l) != "p/k" {
		t.Errorf("%+v", l)
	}
	t.Run("refused", func(t *testing.T) {
		for _, path := range []string{
			"/v1/objects/p/k", "/v1/objects/p/k?watch=true",
			"/v1/objects/p/?watch=true&resourceVersion=1",
		} {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				at := *s
				at.t = t
				if r := at.do("GET", path, "").want(503, "ServiceUnavailable"); r.header.Get("Retry-After") == "" {
					t.Errorf("%v", r.header)
				}
			})
		}
		t.Run("write", func(t *testing.T) {
			t.Parallel()
			at := *s
			at.t = t
			if r := at.do("PUT", "/v1/objects/p/k?resourceVersion=2", `{"value":2}`); r.code != 503 && r.code != 504 {
				t.Errorf("a write is answered %d %s", r.code, r.body)
			}
		})
	})
	if err := server.Unpause(); err != nil {
		t.Fatal(err)
	}
	// Reads work again at once, watches with the next heartbeat.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.do("GET", "/v1/objects/p/?watch=true&timeoutSeconds=1", "").code != 200 {
		<-tick.C
	}
	s.do("GET", "/v1/objects/p/k", "").want(200, "")
	s.watch("/v1/objects/p/?watch=true&resourceVersion=1").want("ADDED p/k@2=1")
}
