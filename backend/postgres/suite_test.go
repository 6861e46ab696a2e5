package postgres

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// database makes an empty database and returns its DSN, with parameters.
func database(tb testing.TB, params ...string) string {
	tb.Helper()
	return with(pgserver.Database(tb), params...)
}

// with adds parameters to a DSN that is a URL.
func with(dsn string, params ...string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func openTest(tb testing.TB, cfg Config) *Backend {
	tb.Helper()
	b, err := Open(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// inPart lists the tests that depend on how statements and rows are sent, for the modes other than the default. With
// [env.Whole], the suites run completely in every mode of pgx.
func inPart() []string {
	if env.Whole.Text() != "" {
		return nil
	}
	return []string{
		"LongKeys", "RowsAreComplete", "RowsByID", "BytesOfRanges", "BytesOfRows", "HistoryWithPrev",
		"BeginLoads", "RefusedCommitChangesNothing", "LeasesAndAlarms", "TokenKeys", "Times", "CorruptRows",
		"Inspect", "Auth", "AuthTokens",
	}
}

// sharedInPart lists the tests that depend on which session runs a statement, for poolers. With [env.Whole], all do.
func sharedInPart() []string {
	if env.Whole.Text() != "" {
		return nil
	}
	return []string{
		"BeginExcludesOthers", "TailInBegin", "Confirm", "LockedLeasesAreNotRenewed", "PinsKeepRows", "AuthIsNews",
		"Listen",
	}
}

// modes returns pgx's default mode, and the others if the environment wants everything.
func modes() []string {
	if env.Whole.Text() == "" {
		return []string{"cache_statement"}
	}
	return []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
}

// TestSuite runs the suite; TestPooler does so in part in the modes for poolers.
func TestSuite(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backend.Backend {
				return openTest(t, Config{DSN: database(t, "default_query_exec_mode", mode)})
			}, backendtest.Hooks{Reopen: reopen, Execute: execute, View: view})
		})
	}
}

// reopened is a Backend with the member id of an earlier one. Each Open makes a new id, and the suite needs a stable
// one.
type reopened struct {
	*Backend
	member uint64
}

func (r reopened) Settings(ctx context.Context) (backend.Settings, error) {
	s, err := r.Backend.Settings(ctx)
	s.MemberID = r.member
	return s, err
}

func reopen(t *testing.T, b backend.Backend) backend.Backend {
	s, err := b.Settings(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	old := opened(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return reopened{openTest(t, Config{DSN: old.cfg.DSN}), s.MemberID}
}

// opened returns the Backend that b is or wraps.
func opened(b backend.Backend) *Backend {
	if again, ok := b.(reopened); ok {
		return again.Backend
	}
	return b.(*Backend)
}

// execute runs a statement on another connection than those of b.
func execute(t *testing.T, b backend.Backend, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), opened(b).cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), statement)
	if err := errors.Join(err, c.Close(context.Background())); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func view(t *testing.T, b backend.Backend) backend.View {
	t.Helper()
	v, err := OpenView(t.Context(), opened(b).cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestShared runs the suite of what processes share; TestPooler does so in part without prepared statements.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			backendtest.RunShared(t, func(t *testing.T) (a, b backend.Shared) {
				dsn := database(t, "default_query_exec_mode", mode)
				return openTest(t, Config{DSN: dsn}), openTest(t, Config{DSN: dsn})
			}, backendtest.SharedHooks{})
		})
	}
}
