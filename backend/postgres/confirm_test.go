package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// A confirmation that the server executes after its member has left does not add the member again.
func TestConfirmationBehindLeaving(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	m := backend.Member{ID: 7, Name: "a"}
	if _, err := b.Heartbeat(t.Context(), m, time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	leaving, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leaving.Close(context.Background()) }()
	for _, sql := range []string{"BEGIN", "DELETE FROM members WHERE id = 7"} {
		if _, err := leaving.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.Confirm(ctx, m)
		done <- err
	}()
	eventually(t, "the confirmation waits", func() bool { return waiting(t, dsn) == 1 })
	cancel()
	if err := <-done; err == nil {
		t.Fatal("confirmed though it had to wait")
	}
	if _, err := leaving.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has executed it", func() bool {
		n := 0
		admin(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "+
			"application_name = 'sqlstore' AND state <> 'idle'", &n)
		return n == 0
	})
	members := 0
	if admin(t, dsn, "SELECT count(*) FROM members", &members); members != 0 {
		t.Errorf("%d members after the only one has left", members)
	}
	if _, err := b.Confirm(t.Context(), m); err != nil {
		t.Error(err)
	}
	if admin(t, dsn, "SELECT count(*) FROM members", &members); members != 1 {
		t.Errorf("%d members after the confirmation of a member that was considered dead", members)
	}
}
