package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

const aboutParameters = "see https://www.postgresql.org/docs/current/libpq-connect.html for the parameters"

// checked are the parameters whose values pgx checks.
var checked = []string{
	"target_session_attrs", "sslmode", "sslcertmode", "sslkey", "connect_timeout", "min_protocol_version",
	"max_protocol_version", "channel_binding", "require_auth", "default_query_exec_mode", "statement_cache_capacity",
	"description_cache_capacity", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime_jitter",
	"pool_max_conn_lifetime", "pool_max_conn_idle_time", "pool_health_check_period", "pool_ping_timeout",
}

// dsnError returns an error for a DSN without revealing it: pgx's own message may quote parts of it.
func dsnError(dsn string, err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%w: %s: %w", ErrDSN, Redact(dsn), file)
	}
	if strings.Contains(err.Error(), "unable to add CA to cert pool") {
		return fmt.Errorf("%w: %s of sslrootcert, here or in the environment, has no certificates in PEM format: "+
			"write that of the server's authority to it", ErrParameter, rootFile(dsn))
	}
	if name := refusedParameter(err); name != "" {
		return fmt.Errorf("%w: %s: the value of %s, here or in the environment, is not valid: %s", ErrDSN, Redact(dsn),
			name, aboutParameters)
	}
	port := ""
	if strings.Contains(err.Error(), "invalid port") {
		port = "its port is not a number from 1 to 65535, or what is before that is not escaped: "
	}
	return fmt.Errorf("%w: %s: %swrite postgres://user@host:5432/database?sslmode=verify-full, escape what is special "+
		"in it as %%XX, and %s", ErrDSN, Redact(dsn), port, aboutParameters)
}

// refusedParameter returns the parameter that pgx's error is about, "" if it is about none. The error begins with the
// DSN, and a value comes after the name.
func refusedParameter(err error) (name string) {
	_, reason, found := cutLast(err.Error(), "`: ")
	if !found {
		return ""
	}
	first := len(reason)
	for _, c := range checked {
		if at := strings.Index(reason, c); at >= 0 && at < first {
			name, first = c, at
		}
	}
	return name
}

// rootFile names the file with the certificates of authorities.
func rootFile(dsn string) string {
	const name = "sslrootcert"
	if u, err := url.Parse(dsn); err == nil && u.Query().Has(name) {
		return "the file " + u.Query().Get(name)
	}
	for rest, more := dsn, true; more; {
		var key, value string
		if key, rest, more = strings.Cut(rest, "="); !more {
			break
		}
		value, rest, more = keywordValue(strings.TrimLeft(rest, " \t\r\n"))
		if strings.TrimSpace(key) == name {
			return "the file " + strings.Trim(value, "'")
		}
	}
	if file := os.Getenv("PGSSLROOTCERT"); file != "" {
		return "the file " + file
	}
	return "the file"
}
