package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
)

// connectFailure is a connection error with a single line of text: pgx's own error has a line for each attempt, and
// most attempts on one server fail alike.
type connectFailure struct {
	text string
	err  error
}

func (e *connectFailure) Error() string   { return e.text }
func (e *connectFailure) Unwrap() []error { return []error{backend.ErrUnavailable, e.err} }

// asConnectFailure returns the connection error in err, or nil if there is none. If a server refuses the login, the
// message begins with that, because a retry does not help.
func asConnectFailure(err error) error {
	c, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return nil
	}
	if e := pgError(err); e != nil && strings.HasPrefix(e.Code, "28") {
		return &connectFailure{fmt.Sprintf("the database server refuses the login: %s (SQLSTATE %s): check the user "+
			"and the password",
			e.Message, e.Code), err}
	}
	tries := []error{c.Unwrap()}
	if several, ok := c.Unwrap().(interface{ Unwrap() []error }); ok {
		tries = several.Unwrap()
	}
	var texts []string
	for _, try := range tries {
		if text := strings.Join(strings.Fields(try.Error()), " "); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return &connectFailure{fmt.Sprintf("%v: %s", backend.ErrUnavailable, strings.Join(texts, "; ")), err}
}
