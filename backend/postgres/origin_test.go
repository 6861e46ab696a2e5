package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestOriginInEveryMode reads the same origin from binary columns, from text, and when a connection is made.
func TestOriginInEveryMode(t *testing.T) {
	dsn := database(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		b := openTest(t, Config{DSN: with(dsn, "default_query_exec_mode", mode)})
		h, err := b.Head(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		c, err := b.control.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		met := linkOf(c.Conn()).place.Server
		c.Release()
		if h.Origin.Server != met || met.Timeline < 1 {
			t.Errorf("%s: the clock came from %+v, the connection leads to %+v", mode, h.Origin.Server, met)
		}
		var now time.Time
		if err := b.control.pool.QueryRow(t.Context(), "SELECT now()", pgx.QueryExecModeExec).Scan(&now); err != nil {
			t.Fatal(err)
		}
		if late := now.Sub(time.UnixMicro(h.Origin.At)); late < 0 || late > time.Minute {
			t.Errorf("%s: the answer's time is %v before a later one", mode, late)
		}
	}
}

// TestServerThatRefusesToIdentifyItself lets the function fail by which a server identifies itself. Only a server that
// lacks it stays unknown: replicas notice a failover by the origins of answers.
func TestServerThatRefusesToIdentifyItself(t *testing.T) {
	t.Parallel()
	dsn := database(t, "search_path", "public,pg_catalog")
	b := openTest(t, Config{DSN: with(dsn, "default_query_exec_mode", "exec")})
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for code, known := range map[string]bool{
		"57014": true, "53200": true, "40P01": true, "55000": true, "42883": false, "42501": false, "0A000": false,
	} {
		admin(t, dsn, "CREATE OR REPLACE FUNCTION public.pg_walfile_name(pg_lsn) RETURNS text LANGUAGE plpgsql AS "+
			"$$ BEGIN RAISE 'not now' USING ERRCODE = '"+code+"'; END $$")
		origin, err := b.origin(t.Context())
		if known != (err != nil) || !known && origin != unknownOrigin {
			t.Errorf("%s: origin %v, %v", code, origin, err)
		}
		at, err := b.identify(t.Context(), c.PgConn())
		if known != (err != nil) || at != (place{}) {
			t.Errorf("%s: place %v, %v", code, at, err)
		}
	}
}
