package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// TestPlansOfAVerification checks that a verification reads what it must verify: the table itself, the leaves of each
// index, and searches in each of them.
func TestPlansOfAVerification(t *testing.T) {
	p := newPlanned(t)
	// This package analyzes a growing table long before it is vacuumed.
	for _, state := range []string{"ANALYZE object_versions", "VACUUM ANALYZE object_versions"} {
		t.Run(state, func(t *testing.T) {
			p.t = t
			p.exec(state)
			p.exec("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
			testPlansOfAVerification(t, p)
			p.exec("ROLLBACK")
		})
	}
}

func testPlansOfAVerification(t *testing.T, p *planned) {
	t.Helper()
	const key, primary = "object_versions_namespace_name_resource_version_deleted", "object_versions_pkey"
	const lease = "object_versions_lease"
	const keys, ids = "Index Only Scan using " + key, "Index Only Scan using " + primary
	rows := int64(1_000_000)
	for _, c := range []struct {
		set, sql string
		args     []any
		want     []string
		not      []string
	}{
		{onlyTable, allClocks, nil, []string{"Seq Scan on clock"}, []string{"Index"}},
		{"", allHeads, nil, []string{"Seq Scan on object_versions"}, []string{"Index"}},
		{"", tableSums, nil, []string{"Seq Scan on object_versions"}, []string{"Index"}},
		{onlyLeaves, idSums, []any{rows}, []string{ids}, []string{"Seq", "Sort"}},
		{"", entrySums, []any{rows}, []string{keys}, []string{"Seq", "Sort"}},
		{"", leaseSums, []any{rows}, []string{"Index Only Scan using " + lease}, []string{"Seq", "Sort"}},
		{
			onlyLookups, notFound, nil,
			[]string{
				"Nested Loop", keys + " on object_versions t", "Index Scan using " + key + " on object_versions o",
				"Index Scan using " + primary + " on object_versions o",
			},
			[]string{"Hash", "Merge", "Sort", "Seq", keys + " on object_versions o", ids},
		},
		{
			"", leasedIDs, nil,
			[]string{
				"Nested Loop", "Index Only Scan using " + lease, "Index Scan using " + lease + " on object_versions o",
			},
			[]string{"Hash", "Merge", "Sort", "Seq"},
		},
	} {
		if c.set != "" {
			p.exec(c.set)
		}
		plan := p.plan(c.sql, c.args...)
		for _, w := range c.want {
			if !strings.Contains(plan, w) {
				t.Errorf("%s: no %q in\n%s", c.sql, w, plan)
			}
		}
		for _, n := range c.not {
			if strings.Contains(plan, n) {
				t.Errorf("%s: %q in\n%s", c.sql, n, plan)
			}
		}
	}
}

// halted is a [backend.Verifier] that halts its verification until ends is closed.
type halted struct{ began, ends chan struct{} }

func (h halted) Begin(backend.Clock) error {
	close(h.began)
	<-h.ends
	return nil
}
func (h halted) Row(*backend.Row) error { return nil }
func (h halted) Rows() error            { return nil }

// A long verification uses no connection of the pools.
func TestReadsDuringAVerification(t *testing.T) {
	b := openTest(t, Config{DSN: database(t), MaxConns: minConns})
	h := halted{make(chan struct{}), make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- b.Verify(context.Background(), h) }()
	<-h.began
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, _, err := b.Rows(ctx, []backend.RowID{{ModRevision: 2}}, 0); err != nil {
		t.Errorf("a read: %v", err)
	}
	if _, err := b.Purge(ctx, 10, 1); err != nil {
		t.Errorf("a purge: %v", err)
	}
	close(h.ends)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// counting is a [backend.Verifier] that counts rows.
type counting struct{ rows int }

func (c *counting) Begin(backend.Clock) error { return nil }
func (c *counting) Row(*backend.Row) error    { c.rows++; return nil }
func (c *counting) Rows() error               { return nil }

// A program that rewrites a table, such as pg_repack, hides all rows from snapshots that are older than its new ones. A
// verification that waits for such a program reads the new table.
func TestVerificationOfARewrittenTable(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("k", 2)); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	exec := func(sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("BEGIN")
	exec("LOCK TABLE object_versions IN ACCESS EXCLUSIVE MODE")
	var n counting
	done := make(chan error, 1)
	go func() { done <- b.Verify(context.Background(), &n) }()
	eventually(t, "the verification waits", func() bool {
		waits := 0
		admin(t, dsn, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'object_versions'::regclass",
			&waits)
		return waits > 0
	})
	exec("ALTER TABLE object_versions ALTER COLUMN batch TYPE bigint USING batch + 1") // rewrites the table
	exec("COMMIT")
	if err := <-done; err != nil || n.rows != 1 {
		t.Errorf("%d rows, %v", n.rows, err)
	}
}
