package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
)

// Errors at startup.
var (
	// ErrDSN is returned for a DSN that cannot be parsed.
	ErrDSN = errors.New("not a DSN of Postgres")
	// ErrParameter is returned for a setting of the connections with which sqlstore cannot work.
	ErrParameter = errors.New("bad parameter of the database")
	// ErrUnsuitable is returned for a server that cannot provide the guarantees that sqlstore makes.
	ErrUnsuitable = errors.New("the database server does not suit")
	// ErrIncomplete is returned for a database that lacks a table, or the row of a table that has one.
	ErrIncomplete = errors.New("the database is incomplete, as after a restore that left something out; restore a " +
		"complete backup")
	// ErrRefused is returned when the server refuses the user, the database, a right or a parameter. A retry helps only
	// after somebody has changed the server or the settings. It wraps [backend.ErrUnavailable], because that may happen
	// under a running replica, which must go on trying.
	ErrRefused error = refusal{}
)

type refusal struct{}

func (refusal) Error() string { return "the database server refuses this client" }
func (refusal) Unwrap() error { return backend.ErrUnavailable }

// errNotOne is returned when a statement of exactlyOne changes no row, or several.
var errNotOne = fmt.Errorf("%w: the one row of the table clock or auth was not found, or several were; run "+
	"REINDEX TABLE clock and 'sqlstore check', or restore a backup", backend.ErrCorrupt)

// Errors of a running replica for tables whose one row is missing.
var (
	errNoMaintenance = noRow("maintenance")     // all replicas would do the maintenance
	errNoPurge       = noRow("purge")           // pins and purges would not wait for each other
	errNoExtension   = noRow("lease_extension") // leases would end that no client could renew
)

func noRow(table string) error {
	return fmt.Errorf("%w: its table %s has no row, as after a restore that left it out; restore a complete backup",
		backend.ErrUnavailable, table)
}

// errNoTable is returned by a running replica, and to tools, when a table is missing.
var errNoTable = errors.New("a table of sqlstore's is missing: restart the server, which migrates the schema of an " +
	"older version; if it says that the database is incomplete, restore a complete backup")

// The SQLSTATEs that are handled specially.
const (
	codeReadOnly        = "25006"
	codeCancelled       = "57014" // by a request, or by statement_timeout
	codeIdleInTx        = "25P03"
	codeTxTimeout       = "25P04"
	codeDiskFull        = "53100"
	codeFull            = "53300" // all connections that the server, the role or the database allows are in use
	codeLockNotGranted  = "55P03"
	codePlanChanged     = "0A000" // cached plan must not change result type
	codeNoColumn        = "42703"
	codeNoTable         = "42P01"
	codeNoSuchStatement = "26000"
	codeDupStatement    = "42P05"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeDivisionByZero  = "22012" // see errNotOne
	codeNoDatabase      = "3D000"
	codeNoSchema        = "3F000"
	codeNoRight         = "42501"
	codeNoParameter     = "42704" // of the server, in the DSN
	codeBadParameter    = "22023"
	codeNotAccepting    = "55000" // ALTER DATABASE ... ALLOW_CONNECTIONS false
	codeDataCorrupt     = "XX001"
	codeIndexCorrupt    = "XX002"
)

func pgError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// refused reports whether the server rejected a statement, and with it the transaction, on a connection that is still
// usable.
func refused(err error) bool {
	e := pgError(err)
	return e != nil && e.SeverityUnlocalized == "ERROR"
}

// answered reports whether the server answered a query, on a connection that is still usable: it rejected it, or
// returned something corrupt.
func answered(err error) bool { return refused(err) || errors.Is(err, backend.ErrCorrupt) }

// conflict reports whether the server aborted a transaction in favour of another one.
func conflict(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeSerialization || e.Code == codeDeadlock)
}

// remedy returns what the operator can do about an error that no retry resolves, "" for all others.
func remedy(err error) string {
	e := pgError(err)
	switch {
	case e == nil:
	case strings.HasPrefix(e.Code, "28"):
		return "check the user, the password and pg_hba.conf"
	case e.Code == codeNoDatabase:
		return "create the database, or correct its name in the DSN"
	case e.Code == codeNotAccepting && !refused(err):
		return "allow connections to the database, with ALTER DATABASE"
	case e.Code == codeNoRight:
		return "grant the user what it lacks: CONNECT and CREATE on the database or schema, or the ownership of " +
			"sqlstore's tables"
	case e.Code == codeNoSchema, (e.Code == codeNoParameter || e.Code == codeBadParameter) && !refused(err):
		return "correct the parameters in the DSN, such as sslmode, sslrootcert, connect_timeout or pool_max_conns, " +
			"or those of the user or the database"
	}
	return ""
}

// isFull reports whether the server refused a connection because it allows no more of them.
func isFull(err error) bool {
	e := pgError(err)
	return e != nil && e.Code == codeFull
}

// timedOut reports whether a statement, or its wait for a lock, took longer than allowed.
func timedOut(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeCancelled || e.Code == codeLockNotGranted)
}

// transient reports whether the same statements can succeed when retried on the same connection.
func transient(err error) bool {
	e := pgError(err)
	if e == nil {
		return false
	}
	switch e.Code {
	case codeSerialization, codeDeadlock, codePlanChanged, codeNoSuchStatement, codeDupStatement:
		return true
	}
	return false
}

// unsupported reports whether the server does not know the statement. Missing privileges may be granted.
func unsupported(err error) bool {
	e := pgError(err)
	return e != nil && e.Code != codeNoRight && (strings.HasPrefix(e.Code, "0A") || strings.HasPrefix(e.Code, "42"))
}

// lacks reports whether the server refused a statement because it is another engine than Postgres, or does not let the
// user run it. A timeout or a lack of memory, for example, says nothing about what the server can do.
func lacks(err error) bool {
	return refused(err) && !slices.ContainsFunc(passing, func(class string) bool {
		return strings.HasPrefix(pgError(err).Code, class)
	})
}

// passing are the classes of errors that come from the state of a server, a connection or a transaction.
var passing = []string{"08", "25", "40", "53", "55", "57", "58"}

// translate wraps an error with the sentinel that callers check. It must not be used for the error of a commit.
func (b *Backend) translate(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case b.closed():
		return backend.ErrClosed
	case errors.Is(err, backend.ErrTooManyRows), errors.Is(err, backend.ErrUnavailable),
		errors.Is(err, backend.ErrCompacted):
		return err
	}
	if failure := asConnectFailure(err); failure != nil {
		return failure
	}
	if errors.Is(err, backend.ErrCorrupt) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if e := pgError(err); e != nil {
		switch e.Code {
		case codeNoSuchStatement, codeDupStatement:
			err = fmt.Errorf("%w: a pooler that gives each transaction another connection needs "+
				"default_query_exec_mode=exec in the DSN", err)
		case codeNoColumn: // a backup of before the migration was restored, for example
			err = fmt.Errorf("%w: %w", ErrOldSchema, err)
		case codeNoTable:
			err = fmt.Errorf("%w: %w", errNoTable, err)
		}
	}
	if todo := remedy(err); todo != "" {
		return fmt.Errorf("%s: %w: %w: %s", doing, ErrRefused, err, todo)
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning(err), err)
}

// meaning returns the sentinel for a server error.
func meaning(err error) error {
	e := pgError(err)
	switch {
	case e == nil:
		return backend.ErrUnavailable
	case e.Code == codeDiskFull:
		return backend.ErrNoSpace
	case e.Code == codeDataCorrupt, e.Code == codeIndexCorrupt:
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, backend.ErrCorrupt)
	case e.Code == codeDivisionByZero:
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, errNotOne)
	case strings.HasPrefix(e.Code, "22"), strings.HasPrefix(e.Code, "23"),
		e.Code == "54000": // data, constraint, program limit
		return backend.ErrRejected
	}
	return backend.ErrUnavailable
}
