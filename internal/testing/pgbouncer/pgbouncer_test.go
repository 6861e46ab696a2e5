package pgbouncer

import (
	"context"
	"net"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A client does not have a session of its own: two of its transactions use different server connections if others are
// busy, and a setting of one is gone in the next.
func TestTransactionMode(t *testing.T) {
	dsn := Before(t, pgserver.Database(t))
	var conns []*pgx.Conn
	for range 2 {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		conns = append(conns, conn)
	}
	pid := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) (pid int) {
		if err := q.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first := pid(conns[0])
	tx, err := conns[1].Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := pid(tx); got != first {
		t.Errorf("the second client has connection %d, the idle one is %d: this is not transaction mode", got, first)
	}
	if got := pid(conns[0]); got == first {
		t.Errorf("both clients have connection %d", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Without a local PgBouncer it is a container.
func TestContainer(t *testing.T) {
	u, err := url.Parse(pgserver.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	addr, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	p, host, err := startContainer(u, port)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort(host, port)
	if err := ready(u.String() + "&" + Parameter + "=" + ParameterValue); err != nil {
		t.Errorf("%v\n%s", err, p.logs())
	}
	if err := p.remove(); err != nil {
		t.Error(err)
	}
}
