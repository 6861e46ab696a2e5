package postgres

import (
	"context"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestListenOverAnOutage stops the server while a listener runs, which reports that once when the connection breaks,
// and once when it is back.
func TestListenOverAnOutage(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	var log logged
	b, other := openTest(t, Config{DSN: dsn, Logger: log.logger()}), openTest(t, Config{DSN: dsn})
	ctx, cancel := context.WithCancel(t.Context())
	states, hints, done := make(chan bool, 100), make(chan int64, 100), make(chan struct{})
	go func() {
		defer close(done)
		b.Listen(ctx, func(revision, _ int64) { hints <- revision }, func(listening bool) { states <- listening })
	}()
	tries := func() int64 { return b.listens.Load() }
	const broke, back = "no connection for notifications", "notifications arrive again"
	if !<-states {
		t.Fatal("no notifications")
	}
	for outage := 1; outage <= 2; outage++ {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if <-states {
			t.Fatal("notifications of a server that is down")
		}
		before := tries()
		eventually(t, "it is tried again", func() bool { return tries() >= before+3 })
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if !<-states {
			t.Fatal("reported twice that there are no notifications")
		}
		if m, n := log.count(broke), log.count(back); m != outage || n != outage {
			t.Errorf("after %d outages, %d reports that it broke and %d that it is back", outage, m, n)
		}
	}
	if err := other.Hint(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	if revision := <-hints; revision != 2 {
		t.Errorf("hint of revision %d", revision)
	}
	cancel()
	<-done
}

// TestCommitSendsNoNotification commits, and then sends a hint: a transaction that notifies would wait for those of all
// databases of the server.
func TestCommitSendsNoNotification(t *testing.T) {
	dsn := database(t)
	b, other := openTest(t, Config{DSN: dsn}), openTest(t, Config{DSN: dsn})
	ctx, cancel := context.WithCancel(t.Context())
	states, hints, done := make(chan bool, 100), make(chan [2]int64, 100), make(chan struct{})
	go func() {
		defer close(done)
		b.Listen(ctx, func(revision, compacted int64) { hints <- [2]int64{revision, compacted} },
			func(listening bool) { states <- listening })
	}()
	if !<-states {
		t.Fatal("no notifications")
	}
	if err := begin(t, other, backend.Needs{}).Commit(t.Context(), row("a", 2)); err != nil {
		t.Fatal(err)
	}
	if err := other.Hint(t.Context(), 7, 5); err != nil {
		t.Fatal(err)
	}
	if h := <-hints; h != [2]int64{7, 5} {
		t.Errorf("the first hint is %v", h)
	}
	cancel()
	<-done
}

// TestNotifyFailsAtTheStart opens a database that does not take the first notification. If that may pass, hints are
// sent all the same; if the server will never take one, they are not.
func TestNotifyFailsAtTheStart(t *testing.T) {
	t.Parallel()
	for code, sent := range map[string]bool{"57014": true, "54000": true, "42501": false} {
		t.Run(code, func(t *testing.T) {
			dsn := database(t, "search_path", "public,pg_catalog")
			admin(t, dsn, "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS "+
				"'BEGIN RAISE EXCEPTION USING ERRCODE = ''"+code+"''; END'")
			b := openTest(t, Config{DSN: dsn})
			admin(t, dsn, "DROP FUNCTION public.pg_notify(text, text)")
			other := openTest(t, Config{DSN: dsn})
			states, hints := make(chan bool, 100), make(chan int64, 100)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				other.Listen(ctx, func(revision, _ int64) { hints <- revision }, func(is bool) { states <- is })
			}()
			if !<-states {
				t.Fatal("no notifications")
			}
			if err := b.Hint(t.Context(), 2, 0); err != nil {
				t.Fatal(err)
			}
			third := openTest(t, Config{DSN: dsn})
			if err := third.Hint(t.Context(), 3, 0); err != nil {
				t.Fatal(err)
			}
			if first := <-hints; sent != (first == 2) {
				t.Errorf("the first hint is of revision %d", first)
			}
			cancel()
			<-done
		})
	}
}
