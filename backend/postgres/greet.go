package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// sessionTimeout is how long a server lets a statement run that no process waits for any more. A process that still
// waits cancels the statement earlier.
const sessionTimeout = readTimeout + 2*time.Second

// clientCheck is how often a server checks whether the client of a running statement is still connected, from Postgres
// 14 on.
const clientCheck = 2 * time.Second

// greetings are tried in turn on a new connection. They return what we need to know about it, and change the settings
// of its session if the session is ours alone. A pooler shares the session with others and reports a process id that is
// not the server's; there, each transaction sets its timeouts.
var greetings = []string{
	"SELECT pg_backend_pid(), " + weakOf + ", " + unprotectedPages + ", CASE WHEN $1::integer = pg_backend_pid() " +
		"THEN set_config('statement_timeout', $2::text, false) END, " +
		"CASE WHEN $1::integer = pg_backend_pid() AND current_setting('client_connection_check_interval', true) IS " +
		"NOT NULL " +
		"THEN set_config('client_connection_check_interval', $3::text, false) END",
	// Not every platform supports client_connection_check_interval.
	"SELECT pg_backend_pid(), " + weakOf + ", " + unprotectedPages + ", CASE WHEN $1::integer = pg_backend_pid() " +
		"THEN set_config('statement_timeout', $2::text, false) END WHERE $3::text <> ''",
	"SELECT pg_backend_pid(), '', false WHERE $1::integer <> 0 AND $2::text <> '' AND $3::text <> ''",
}

// greet prepares each new connection of the pools.
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
	weak, unprotected := "", false
	each := func(s *scanner) error {
		l.direct, weak, unprotected = s.integer() == own, s.text(), s.boolean()
		return nil
	}
	var err error
	for i, sql := range greetings {
		err = scan(ctx, c, each, sql, []any{oneTrip(c), int32(own), milliseconds(statement), milliseconds(clientCheck)})
		if err == nil {
			b.noteWeak(weak)
			if i < len(greetings)-1 { // the last one does not ask for it
				b.notePages(unprotected)
			}
		}
		if !lacks(err) {
			return err
		}
	}
	b.log.Debug("the database server is another engine than Postgres", "error", err)
	return nil
}
