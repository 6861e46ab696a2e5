package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Errors of a connection whose transactions cannot write.
var (
	// errStandby is returned for a standby, and for a read-only engine other than Postgres.
	errStandby = errors.New("the server is a standby or read-only")
	// errReadOnly is returned for a primary.
	errReadOnly = errors.New("transactions are read-only by default: turn default_transaction_read_only off, with " +
		"ALTER ROLE, ALTER DATABASE or ALTER SYSTEM, or in the DSN")
)

// Columns that distinguish one server from another. A server in recovery refuses the first, so an answer that contains
// them never comes from a standby. date_part computes with floats, which are exact enough for microseconds; extract
// would take longer than the rest of a short statement.
const (
	walFile    = "pg_walfile_name(pg_current_wal_lsn())"
	startTime  = "pg_postmaster_start_time()"
	timelineOf = "('x' || substr(" + walFile + ", 1, 8))::bit(32)::bigint"
	startedOf  = "(date_part('epoch', " + startTime + ") * 1000000)::bigint"
	timeOf     = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
)

// originColumns are the columns of a [backend.Origin] in SQL, as scanner.origin reads them.
type originColumns [3]string

var (
	// binaryOrigin leaves the arithmetic to scanner.origin, because every linearizable read makes the server evaluate
	// these columns.
	binaryOrigin = originColumns{walFile, startTime, "clock_timestamp()"}
	// textOrigin replaces binaryOrigin if answers are text: the text of a time depends on the session's settings.
	textOrigin = originColumns{timelineOf, startedOf, timeOf}
	// unknownOrigin replaces both for an engine that is not Postgres.
	unknownOrigin = originColumns{"0::bigint", "0::bigint", timeOf}
)

// perRow returns the columns for a statement that returns one row.
func (o originColumns) perRow() string { return strings.Join(o[:], ", ") }

// once returns the columns for a statement that may return many rows: they are evaluated once.
func (o originColumns) once() string { return "(SELECT " + strings.Join(o[:], "), (SELECT ") + ")" }

// introductions are tried in turn on a new connection. They return whether it is read-only, the process id, the
// timeline, the start time and the system identifier. Each leaves out more of what the server may lack or hide from
// ordinary users.
var introductions = []string{
	"SELECT current_setting('transaction_read_only'), pg_backend_pid(), CASE WHEN pg_is_in_recovery() THEN 0 ELSE " +
		timelineOf + " END, " + startedOf +
		", (SELECT system_identifier FROM pg_control_system())",
	"SELECT current_setting('transaction_read_only'), pg_backend_pid(), CASE WHEN pg_is_in_recovery() THEN 0 ELSE " +
		timelineOf + " END, " + startedOf + ", 0",
	"SHOW transaction_read_only",
}

// identify identifies the server that a connection leads to. A pooler may route each transaction to a different one, so
// its place is unknown.
func (b *Backend) identify(ctx context.Context, c *pgconn.PgConn) (place, error) {
	var err error
	for _, sql := range introductions {
		var results []*pgconn.Result
		if results, err = c.Exec(ctx, sql).ReadAll(); err != nil {
			if lacks(err) && !c.IsClosed() { // a pooler says only now that the server refuses it
				continue
			}
			return place{}, err
		}
		row := results[0].Rows[0]
		if string(row[0]) == "on" && !b.anySession {
			return place{}, readOnly(row)
		}
		if len(row) == 1 || string(row[1]) != strconv.FormatUint(uint64(c.PID()), 10) {
			return place{}, nil
		}
		var p place
		for i, n := range []*int64{&p.Timeline, &p.Started, &p.system} {
			if *n, err = strconv.ParseInt(string(row[2+i]), 10, 64); err != nil {
				return place{}, fmt.Errorf("look at the server: %w", err)
			}
		}
		if b.servers.preferred(p) {
			return p, nil
		}
		// Only pgx can make the error that keeps a connection as a fallback in case no other server is available. It
		// does so for a primary when a standby is preferred, and this is a primary.
		return p, pgconn.ValidateConnectTargetSessionAttrsPreferStandby(ctx, c)
	}
	return place{}, nil
}

// readOnly returns why transactions cannot write, given a row of introductions.
func readOnly(row [][]byte) error {
	if len(row) > 2 && string(row[2]) != "0" { // on the timeline of a primary
		return errReadOnly
	}
	return errStandby
}

// introduce makes a new connection call identify before it is used.
func (b *Backend) introduce(cc *pgconn.Config, l *link) {
	asked := cc.ValidateConnect // the check for the DSN's target_session_attrs
	cc.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) (err error) {
		if asked != nil {
			if err := asked(ctx, c); err != nil {
				return explain(ctx, c, err)
			}
		}
		l.place, err = b.identify(ctx, c)
		return err
	}
}

// explain adds to the error of a DSN's target_session_attrs that a primary is refused because it is read-only. Others
// it returns as they are, which a host that is not preferred needs.
func explain(ctx context.Context, c *pgconn.PgConn, err error) error {
	if _, ok := errors.AsType[*pgconn.NotPreferredError](err); ok {
		return err
	}
	results, queryErr := c.Exec(ctx, introductions[1]).ReadAll()
	if queryErr != nil {
		return err
	}
	row := results[0].Rows[0]
	if string(row[0]) == "on" && errors.Is(readOnly(row), errReadOnly) {
		return fmt.Errorf("%w (%w)", errReadOnly, err)
	}
	return err
}

// current reports whether a connection of the pools leads to the server that was connected last.
func (b *Backend) current(_ context.Context, c *pgx.Conn) (bool, error) {
	return b.servers.current(linkOf(c).place), nil
}

// checkSession refuses sessions that can never write, or that lead to a standby whenever there is one. Errors:
// [ErrParameter].
func checkSession(dsn string) error {
	wanted := os.Getenv("PGTARGETSESSIONATTRS")
	if u, err := url.Parse(dsn); err == nil && u.Query().Has("target_session_attrs") {
		wanted = u.Query().Get("target_session_attrs")
	}
	switch wanted {
	case "read-only", "standby", "prefer-standby":
		return fmt.Errorf("%w: target_session_attrs of the DSN, or PGTARGETSESSIONATTRS, is %s, but a server writes: "+
			"leave it out, or make it read-write", ErrParameter, wanted)
	}
	return nil
}

// namesSession reports whether the user specifies which servers are acceptable. Otherwise those that accept writes are.
func namesSession(dsn string) bool {
	return strings.Contains(dsn, "target_session_attrs") || os.Getenv("PGTARGETSESSIONATTRS") != ""
}
