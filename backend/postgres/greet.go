package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// sessionTimeout is what a server allows a statement that no process waits for any more. A process that waits cancels
// it before.
const sessionTimeout = readTimeout + 2*time.Second

// clientCheck is how often a server looks whether the client of a statement is still there, from Postgres 14 on.
const clientCheck = 2 * time.Second

// greetings are tried in turn: what is learned of a new connection, and the settings of its session where the session
// is ours. A pooler gives the session to others, too, and shows another process id than the server's: there each
// transaction has its bounds.
var greetings = []string{
	"SELECT pg_backend_pid(), " + weakOf + ", CASE WHEN $1::integer = pg_backend_pid() " +
		"THEN set_config('statement_timeout', $2::text, false) END, " +
		"CASE WHEN $1::integer = pg_backend_pid() AND current_setting('client_connection_check_interval', true) IS " +
		"NOT NULL " +
		"THEN set_config('client_connection_check_interval', $3::text, false) END",
	// Not every platform can look.
	"SELECT pg_backend_pid(), " + weakOf + ", CASE WHEN $1::integer = pg_backend_pid() " +
		"THEN set_config('statement_timeout', $2::text, false) END WHERE $3::text <> ''",
	"SELECT pg_backend_pid(), '' WHERE $1::integer <> 0 AND $2::text <> '' AND $3::text <> ''",
}

// greet is for each new connection of the pools.
func (b *Backend) greet(ctx context.Context, c *pgx.Conn) error {
	if err := useByteaArrays(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	statement := sessionTimeout
	if b.unbounded {
		statement = 0
	}
	l, own := linkOf(c), int64(c.PgConn().PID())
	weak := ""
	each := func(s *scanner) error {
		l.direct, weak = s.integer() == own, s.text()
		return nil
	}
	var err error
	for _, sql := range greetings {
		err = scan(ctx, c, each, sql, []any{oneTrip(c), int32(own), milliseconds(statement), milliseconds(clientCheck)})
		if err == nil {
			b.noteWeak(weak)
		}
		if !refused(err) {
			return err
		}
	}
	b.log.Debug("the database server is another engine than Postgres", "error", err)
	return nil
}
