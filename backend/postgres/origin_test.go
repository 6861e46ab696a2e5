package postgres

import (
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
