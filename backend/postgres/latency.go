package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// slowTrip and slowCommit are how long a round trip and a commit may take: a write needs two of the first and one
	// of the second, and holds the clock meanwhile.
	slowTrip   = 5 * time.Millisecond
	slowCommit = 25 * time.Millisecond
	// examineTrips and examineTime limit each of the two measurements.
	examineTrips = 200
	examineTime  = 3 * time.Second
	// clocksApart is how far the server's clock may be from this machine's.
	clocksApart = 2 * time.Second
)

// latency times round trips and commits, and compares the clocks.
func (e *examination) latency(ctx context.Context) error {
	c, err := e.b.reads.pool.Acquire(ctx)
	if err != nil {
		return e.b.translate(ctx, "connect", err)
	}
	defer c.Release()
	trips, err := timeStatements(ctx, c.Conn(), "SELECT 1")
	if err != nil {
		return e.b.translate(ctx, "time a round trip", err)
	}
	e.add(backend.LatencyFinding("round trip", trips, slowTrip, "bring the server and the replicas closer together"))
	commits, err := timeStatements(ctx, c.Conn(), "SELECT pg_logical_emit_message(true, 'sqlstore', 'doctor')")
	if refused(err) {
		e.warn("commit latency", "cannot be measured: "+err.Error(),
			"GRANT EXECUTE ON FUNCTION pg_logical_emit_message")
	} else if err != nil {
		return e.b.translate(ctx, "time a commit", err)
	} else {
		e.add(backend.LatencyFinding("commit latency", commits, slowCommit,
			"give the server, and its synchronous standbys, a faster disk or network"))
	}
	var millis int64
	before := time.Now()
	err = c.QueryRow(ctx, "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint",
		oneTrip(c.Conn())).Scan(&millis)
	after := time.Now()
	if err != nil {
		return e.b.translate(ctx, "read the server's clock", err)
	}
	apart := time.UnixMilli(millis).Sub(before.Add(after.Sub(before) / 2)).Round(time.Millisecond)
	detail := fmt.Sprintf("%v ahead of this machine's", apart)
	if apart.Abs() < clocksApart {
		e.ok("server's clock", detail)
	} else {
		e.warn("server's clock", detail, "synchronize both: leases follow the server's, certificates this machine's")
	}
	return nil
}

// timeStatements measures how long a statement takes. It returns fewer durations if they are long.
func timeStatements(ctx context.Context, c *pgx.Conn, sql string) (took []time.Duration, err error) {
	for began := time.Now(); len(took) < examineTrips && time.Since(began) < examineTime; {
		start := time.Now()
		if _, err := c.Exec(ctx, sql, oneTrip(c)); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
