package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// refusedConn is a connection that the server refused because it allows no more.
type refusedConn struct {
	at      time.Time
	message string
}

// Unwrap returns the error that the server sent.
func (r *refusedConn) Unwrap() error {
	return &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: codeFull, Message: r.message}
}

func (r *refusedConn) Error() string { return r.Unwrap().Error() }

// admitRead and admitControl prepare a connection of a lane, unless the server has just refused one: each attempt costs
// it a process. What control needs is always tried. The rest of it waits longer than reads, which may have none.
func (b *Backend) admitRead(ctx context.Context, cc *pgx.ConnConfig) error {
	return b.admit(ctx, cc, fullPause)
}

func (b *Backend) admitControl(ctx context.Context, cc *pgx.ConnConfig) error {
	if b.control.pool.Stat().TotalConns() <= controlNeeds { // with this one
		return b.prepareCancelling(ctx, cc)
	}
	return b.admit(ctx, cc, 2*fullPause)
}

func (b *Backend) admit(ctx context.Context, cc *pgx.ConnConfig, pause time.Duration) error {
	if full := b.full.Load(); full != nil && time.Since(full.at) < pause {
		return full
	}
	return b.prepareCancelling(ctx, cc)
}

// Connections implements [backend.Pooled]. It adds up the connections and limits of both pools; the listener's
// connection does not count.
func (b *Backend) Connections() (sum backend.Connections) {
	for _, l := range []lane{b.control, b.reads} {
		st := l.pool.Stat()
		sum.InUse += int(st.AcquiredConns())
		sum.Idle += int(st.IdleConns())
		sum.Max += int(st.MaxConns())
		sum.Waits += st.EmptyAcquireCount()
	}
	sum.Opened = b.opened.Load()
	if full := b.full.Load(); full != nil {
		sum.RefusedAt, sum.Refused = full.at, full.message
	}
	return sum
}

// outside is the number of connections outside the pools: the listener's and a verification's. That of a read whose
// pooled connection hangs counts in place of that one.
const outside = 2

// limits are the greatest numbers of connections that the server allows the user, -1 where it sets no limit. Limits of
// roles and databases do not apply to superusers.
const limits = "SELECT CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END, " +
	"CASE WHEN r.rolsuper THEN -1 ELSE d.datconnlimit END, " +
	"current_setting('max_connections')::integer - CASE WHEN r.rolsuper THEN 0 ELSE " +
	"current_setting('superuser_reserved_connections')::integer + " +
	"COALESCE(current_setting('reserved_connections', true)::integer, 0) END " +
	"FROM pg_roles AS r, pg_database AS d WHERE r.rolname = session_user AND d.datname = current_database()"

// fit makes the pools small enough for what the server allows, and refuses a server that allows too little. Others may
// use a part of that, too, so it can still refuse connections later.
func (b *Backend) fit(ctx context.Context) error {
	c, err := b.control.pool.Acquire(ctx) // waits for no full server, unlike the lane
	if err != nil {
		return b.translate(ctx, "connect", err)
	}
	own := linkOf(c.Conn()).direct
	c.Release()
	if !own { // the limits are those of a pooler
		return nil
	}
	least, of := int64(-1), ""
	err = b.reads.query(ctx, "read the limits of connections", func() { least = -1 }, func(s *scanner) error {
		for _, name := range []string{
			"the user's CONNECTION LIMIT", "the database's CONNECTION LIMIT",
			"max_connections, without those reserved",
		} {
			if n := s.integer(); n >= 0 && (least < 0 || n < least) {
				least, of = n, name
			}
		}
		return nil
	}, limits)
	configured := int64(b.pools.MaxConns) + outside
	switch {
	case lacks(err): // an engine other than Postgres
		return nil
	case err != nil || least < 0 || least >= configured:
		return err
	case least < minConns-1+outside:
		return fmt.Errorf("%w: it allows %d connections (%s), and each replica needs at least %d; raise that",
			ErrUnsuitable, least, of, minConns-1+outside)
	}
	b.log.Warn("the database server allows fewer connections than this replica may need, which uses no more than that "+
		"now: raise the limit, or lower "+setting.Name("DatastoreMaxConns")+"; other replicas need as many",
		"limit", of, "allowed", least, "needed", configured)
	b.closePools()
	b.pools.MaxConns = int32(least - outside)
	return b.openLanes()
}
