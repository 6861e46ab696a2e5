package postgres

import (
	"crypto/tls"
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
	text     string
	sentinel error // ErrRefused or backend.ErrUnavailable
	err      error
}

func (e *connectFailure) Error() string   { return e.text }
func (e *connectFailure) Unwrap() []error { return []error{e.sentinel, e.err} }

// asConnectFailure returns the connection error in err, or nil if there is none. If a server refuses the client, the
// message begins with that, because a retry does not help.
func asConnectFailure(err error) error {
	c, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return nil
	}
	if todo := remedy(err); todo != "" {
		e := pgError(err)
		text := fmt.Sprintf("%v: %s (SQLSTATE %s): %s", ErrRefused, e.Message, e.Code, todo)
		return &connectFailure{text, ErrRefused, err}
	}
	if isFull(err) {
		text := fmt.Sprintf("%v: it allows no more connections: %s (SQLSTATE %s)", backend.ErrUnavailable,
			pgError(err).Message, codeFull)
		return &connectFailure{text, backend.ErrUnavailable, err}
	}
	tries := []error{c.Unwrap()}
	if several, ok := c.Unwrap().(interface{ Unwrap() []error }); ok {
		tries = several.Unwrap()
	}
	var texts []string
	sentinel, todo := ErrRefused, ""
	for _, try := range tries {
		if todo = tlsRemedy(try); todo == "" {
			sentinel = backend.ErrUnavailable
		}
		if text := strings.Join(strings.Fields(try.Error()), " "); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	text := fmt.Sprintf("%v: %s", sentinel, strings.Join(texts, "; "))
	if errors.Is(sentinel, ErrRefused) {
		text += ": " + todo
	}
	return &connectFailure{text, sentinel, err}
}

// tlsRemedy is remedy for the TLS of an attempt to connect.
func tlsRemedy(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "correct sslrootcert, sslmode or the host in the DSN, or the server's certificate"
	}
	if strings.HasSuffix(err.Error(), "server refused TLS connection") { // pgx has no other sign of it
		return "turn ssl on at the server, or choose sslmode=disable in the DSN"
	}
	return ""
}
