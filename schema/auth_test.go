package schema

import (
	"context"
	"database/sql"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// TestAuthKeepsOlderProgramsOut goes back to the version before users and roles: not while authentication is enabled.
func TestAuthKeepsOlderProgramsOut(t *testing.T) {
	for name, db := range map[string]*sql.DB{
		"sqlite": openDB(t), "postgres": openPostgres(t, pgserver.Database(t)),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if err := Up(ctx, db, nil); err != nil {
				t.Fatal(err)
			}
			before, err := Status(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			older := before
			older.Version = 3
			if name == "postgres" {
				older.Version, older.Serves = 6, 4
			}
			steps := int(before.Version - older.Version)
			exec(t, db, "UPDATE auth SET enabled = (1 = 1)")
			if err := Down(ctx, db, steps); err == nil {
				t.Error("went back while authentication is enabled")
			}
			wantStatus(t, db, before)
			exec(t, db, "UPDATE auth SET enabled = (1 = 0)")
			if name == "postgres" {
				exec(t, db, "UPDATE settings SET value = 7 WHERE name = 'oldest_program'")
			}
			if err := Down(ctx, db, steps); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, db, older)
		})
	}
}
