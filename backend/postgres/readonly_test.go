package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A primary whose transactions are read-only by default is no standby.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	reader := userOf(t, database(t))
	dsn := reader.dsn
	reader.alter(t, "SET default_transaction_read_only = on")
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
	reader.alter(t, "RESET default_transaction_read_only")
	begin(t, openTest(t, Config{DSN: dsn}), backend.Needs{}).Rollback()
}
