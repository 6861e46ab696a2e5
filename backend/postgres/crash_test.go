package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestServerLosesAProcess kills one process of a server, as the system does when it is out of memory. The server
// recovers, keeps its start time, and shows a commit that was waiting for the standby. What it acknowledged before
// proves nothing about that commit.
func TestServerLosesAProcess(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	b := openTest(t, Config{DSN: s.Database(t)})
	member := backend.Member{ID: 7, Name: "a"}
	before, err := b.Confirm(t.Context(), member)
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Unconfirmed(before.Origin); d > time.Minute {
		t.Fatalf("unconfirmed for %v after a confirmation", d)
	}
	tx := begin(t, b, backend.Needs{})
	wantStandby(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	committed := make(chan error)
	go func() { committed <- tx.Commit(ctx, row("a", 2)) }()
	eventually(t, "the commit waits for the standby", func() bool {
		var n int
		admin(t, s.DSN(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", &n)
		return n == 1
	})
	cancel()
	if err := <-committed; !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Fatalf("commit without a standby: %v", err)
	}
	wantClock(t, b, 1)

	kill(t, s, "wait_event = 'SyncRep'")
	var after backend.Head
	eventually(t, "the server recovers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		after, err = b.Head(ctx)
		return err == nil && after.Clock.Revision == 2
	})
	if after.Origin.Server != before.Origin.Server {
		t.Fatalf("the server was %+v and is %+v: it was restarted, which other tests cover", before.Origin,
			after.Origin)
	}
	if d := b.Unconfirmed(after.Origin); d != math.MaxInt64 {
		t.Errorf("the server shows what no standby has, confirmed %v ago", d)
	}
	admin(t, s.DSN(), "ALTER SYSTEM RESET synchronous_standby_names")
	admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
	eventually(t, "the server confirms", func() bool {
		after, err = b.Confirm(t.Context(), member)
		return err == nil
	})
	if d := b.Unconfirmed(after.Origin); d > time.Minute {
		t.Errorf("unconfirmed for %v after another confirmation", d)
	}
}

// kill kills the server's process that serves the only connection for which condition is true.
func kill(t *testing.T, s *pgserver.Server, condition string) {
	t.Helper()
	var pid int
	admin(t, s.DSN(), "SELECT pid FROM pg_stat_activity WHERE "+condition, &pid)
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	// The server breaks this connection, too, perhaps before it answers.
	_, _ = c.Exec(t.Context(), fmt.Sprintf("COPY (SELECT 1) TO PROGRAM 'kill -9 %d'", pid))
}
