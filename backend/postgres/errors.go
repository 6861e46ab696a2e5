package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
)

// Start.
var (
	// ErrDSN is returned for a DSN that cannot be read.
	ErrDSN = errors.New("not a DSN of Postgres")
	// ErrUnsuitable is returned for a server that cannot keep what sqlstore promises.
	ErrUnsuitable = errors.New("the database server does not suit")
)

// SQLSTATEs that mean something here.
const (
	codeReadOnly        = "25006"
	codeCancelled       = "57014" // by a request, or by statement_timeout
	codeIdleInTx        = "25P03"
	codeTxTimeout       = "25P04"
	codeDiskFull        = "53100"
	codeLockNotGranted  = "55P03"
	codePlanChanged     = "0A000" // cached plan must not change result type
	codeNoSuchStatement = "26000"
	codeDupStatement    = "42P05"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
)

func pgError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// refused says that the server has refused a statement, and with it the transaction, over a connection that goes on.
func refused(err error) bool {
	e := pgError(err)
	return e != nil && e.SeverityUnlocalized == "ERROR"
}

// conflict says that the server gave a transaction up for another one.
func conflict(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeSerialization || e.Code == codeDeadlock)
}

// timedOut says that a statement took longer than it may, or waited longer for a lock.
func timedOut(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeCancelled || e.Code == codeLockNotGranted)
}

// transient says that the same statements can succeed at the next try, on the same connection.
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

// unsupported says that the server will never do what the statement asks for.
func unsupported(err error) bool {
	e := pgError(err)
	return e != nil && (strings.HasPrefix(e.Code, "0A") || strings.HasPrefix(e.Code, "42"))
}

// translate gives an error its meaning for callers. It is not for the error of a commit.
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
	if e := pgError(err); e != nil && (e.Code == codeNoSuchStatement || e.Code == codeDupStatement) {
		err = fmt.Errorf("%w: a pooler that gives each transaction another connection needs "+
			"default_query_exec_mode=exec in the DSN", err)
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning(err), err)
}

// meaning is the sentinel for an error of the server's.
func meaning(err error) error {
	e := pgError(err)
	switch {
	case e == nil:
		return backend.ErrUnavailable
	case e.Code == codeDiskFull:
		return backend.ErrNoSpace
	case strings.HasPrefix(e.Code, "22"), strings.HasPrefix(e.Code, "23"),
		e.Code == "54000": // data, constraint, program limit
		return backend.ErrRejected
	}
	return backend.ErrUnavailable
}
