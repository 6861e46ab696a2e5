package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// userOf makes an ordinary user who owns a new database of the server, and returns the database's DSN for the user.
func userOf(t *testing.T, s *pgserver.Server, name string) string {
	t.Helper()
	dsn := s.Database(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	admin(t, dsn, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'p'; ALTER DATABASE %q OWNER TO %[1]s; "+
		"GRANT ALL ON SCHEMA public TO %[1]s", name, strings.Trim(u.Path, "/")))
	u.User = url.UserPassword(name, "p")
	return u.String()
}

// A primary whose transactions are read-only by default is no standby.
func TestReadOnlyByDefault(t *testing.T) {
	s := pgserver.Start(t, pgserver.Options{})
	dsn := userOf(t, s, "reader")
	admin(t, dsn, "ALTER ROLE reader SET default_transaction_read_only = on")
	for _, dsn := range []string{
		dsn, with(dsn, "target_session_attrs", "any"), with(dsn, "target_session_attrs", "read-write"),
	} {
		b, err := Open(t.Context(), Config{DSN: dsn})
		if err == nil {
			_ = b.Close()
		}
		if !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), "default_transaction_read_only") ||
			strings.Contains(err.Error(), "standby") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	admin(t, s.DSN(), "ALTER ROLE reader RESET default_transaction_read_only")
	begin(t, openTest(t, Config{DSN: dsn}), backend.Needs{}).Rollback()
}
