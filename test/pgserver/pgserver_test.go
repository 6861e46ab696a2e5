package pgserver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestDatabase(t *testing.T) {
	a, b := Database(t), Database(t)
	for _, dsn := range []string{a, b} {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "CREATE TABLE t (i int)"); err != nil {
			t.Fatal(err)
		}
	}
}
