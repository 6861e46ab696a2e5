package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
	"github.com/sqlstore/sqlstore/internal/testing/pgbouncer"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// everyMode lists pgx's modes.
var everyMode = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

// TestCancelledCommitInSilence cancels waits for the standby where the database silences the warning that says so.
func TestCancelledCommitInSilence(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	admin(t, s.DSN(), "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET client_min_messages = 'error'")
	all := map[string]*Backend{"pooler": openTest(t, Config{DSN: pgbouncer.Before(t, dsn)})}
	for _, mode := range everyMode {
		all[mode] = openTest(t, Config{DSN: with(dsn, "default_query_exec_mode", mode)})
	}
	m := backend.Member{ID: 7, Name: "a"}
	for _, b := range all {
		if _, err := b.Heartbeat(t.Context(), m, time.Hour, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	wantStandby(t, s)
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			tx := begin(t, b, backend.Needs{})
			err := cancelled(t, s, func() error {
				return tx.Commit(context.Background(), row("a", tx.Loaded().Clock.Revision+1))
			})
			if !errors.Is(err, backend.ErrUnknownOutcome) {
				t.Errorf("a cancelled commit: %v", err)
			}
			err = cancelled(t, s, func() error {
				_, err := b.Heartbeat(context.Background(), m, time.Hour, time.Hour)
				return err
			})
			if err == nil {
				t.Error("a cancelled heartbeat is acknowledged")
			}
			err = cancelled(t, s, func() error {
				_, err := b.confirmOnce(context.Background(), m)
				return err
			})
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("a cancelled confirmation: %v", err)
			}
		})
	}
	admin(t, s.DSN(), "ALTER SYSTEM RESET synchronous_standby_names")
	admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
}

// cancelled returns the result of f, whose wait for the standby is cancelled as an administrator would.
func cancelled(t *testing.T, s *pgserver.Server, f func() error) error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- f() }()
	eventually(t, "a wait for the standby is cancelled", func() bool {
		n := 0
		admin(t, s.DSN(), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "+
			"AND datname <> 'postgres'", &n)
		return n > 0
	})
	return <-got
}

// strangeSettings are some with which a role or database can change what statements mean, or how answers look.
var strangeSettings = []string{
	"array_nulls", "off", "bytea_output", "escape", "client_min_messages", "error",
	"default_transaction_isolation", "serializable", "default_transaction_deferrable", "on",
	"DateStyle", "German", "IntervalStyle", "sql_standard", "TimeZone", "Asia/Kathmandu",
	"extra_float_digits", "-15", "statement_timeout", "1h", "lock_timeout", "1h",
	"idle_in_transaction_session_timeout", "1h", "synchronous_commit", "local", "plan_cache_mode", "force_generic_plan",
}

// TestStrangeSettings runs a part of the suite with them, in the mode in which all arguments and answers are text.
func TestStrangeSettings(t *testing.T) {
	t.Parallel()
	params := append([]string{"default_query_exec_mode", "simple_protocol"}, strangeSettings...)
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		return openTest(t, Config{DSN: database(t, params...)})
	}, backendtest.Hooks{Reopen: reopen, Execute: execute, View: view, Only: inPart()})
}
