package postgres

import (
	"context"
	"fmt"
	"strings"
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

// TestHintsThatAreRefused sends hints to a server that refuses the first one: if that may pass at once, the next one is
// sent, otherwise one after a while.
func TestHintsThatAreRefused(t *testing.T) {
	t.Parallel()
	for code, passes := range map[string]bool{"57014": true, "54000": true, "42501": false, "0A000": false} {
		t.Run(code, func(t *testing.T) {
			dsn := database(t, "search_path", "public,pg_catalog")
			b, other := openTest(t, Config{DSN: dsn}), openTest(t, Config{DSN: dsn})
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
			admin(t, dsn, "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS "+
				"'BEGIN RAISE EXCEPTION USING ERRCODE = ''"+code+"''; END'")
			if err := b.Hint(t.Context(), 2, 0); (err != nil) != passes {
				t.Errorf("the first hint: %v", err)
			}
			admin(t, dsn, "DROP FUNCTION public.pg_notify(text, text)")
			hint := func(revision int64) {
				t.Helper()
				if err := b.Hint(t.Context(), revision, 0); err != nil {
					t.Error(err)
				}
			}
			hint(3)
			want := int64(3)
			if !passes {
				want = 4
				b.hintsAfter.Add(-unsupportedWait.Nanoseconds())
				hint(4)
			}
			hint(5)
			if first, second := <-hints, <-hints; first != want || second != 5 {
				t.Errorf("the hints are of revisions %d and %d", first, second)
			}
			if b.hintsAfter.Load() != 0 {
				t.Error("the refusal is not forgotten")
			}
			cancel()
			<-done
		})
	}
}

// TestListenWithoutConnect revokes the right to connect for a while: then notifications arrive again.
func TestListenWithoutConnect(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t, pgserver.Options{})
	plain := userOf(t, s.Database(t))
	dsn := plain.dsn
	b := openTest(t, Config{DSN: dsn})
	states := make(chan bool, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Listen(ctx, func(int64, int64) {}, func(listening bool) { states <- listening })
	}()
	if !<-states {
		t.Fatal("no notifications")
	}
	name := strings.TrimPrefix(pathOf(t, dsn), "/")
	admin(t, s.DSN(), fmt.Sprintf("REVOKE CONNECT ON DATABASE %q FROM public", name))
	admin(t, s.DSN(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+plain.name+"'")
	if <-states {
		t.Fatal("notifications without a connection")
	}
	admin(t, s.DSN(), fmt.Sprintf("GRANT CONNECT ON DATABASE %q TO public", name))
	if !<-states {
		t.Fatal("reported twice that there are no notifications")
	}
	cancel()
	<-done
}
