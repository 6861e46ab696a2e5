package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// TestPlanOfDueLeases looks for the leases that have ended, among many that are not due.
func TestPlanOfDueLeases(t *testing.T) {
	p := newPlanned(t)
	p.exec("INSERT INTO leases (id, ttl, expires_at, due_at) SELECT l, 60, now(), clock_timestamp() + " +
		"l * interval '1 hour' - interval '10.5 hours' FROM generate_series(1, 20000) AS l")
	p.exec("ANALYZE leases")
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		p.exec("SET plan_cache_mode = " + mode)
		got := p.plan(dueLeases, int64(20_000))
		if !strings.Contains(got, "leases_due_at") || !strings.Contains(got, "Index Cond: (due_at <=") ||
			!strings.Contains(got, "rows=10 ") || strings.Contains(got, "Rows Removed") {
			t.Errorf("%s:\n%s", mode, got)
		}
	}
}

// TestPlanOfExtension extends a part of many leases.
func TestPlanOfExtension(t *testing.T) {
	p := newPlannedEmpty(t)
	p.exec("INSERT INTO leases (id, ttl, expires_at, due_at) SELECT l, 60, now(), now() " +
		"FROM generate_series(1, 100000) AS l")
	p.exec("ANALYZE leases")
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		p.exec("SET plan_cache_mode = " + mode)
		got := p.plan(extendLeases, int64(50_000), int64(extensionPart))
		for line := range strings.SplitSeq(got, "\n") {
			scan := strings.Contains(line, "Scan") && strings.Contains(line, " on leases")
			if scan && !strings.Contains(line, "rows=5000 ") {
				t.Errorf("%s: %s in\n%s", mode, strings.TrimSpace(line), got)
			}
		}
	}
}

// TestRenewalsAreHeapOnly renews and extends leases: no index gets new entries.
func TestRenewalsAreHeapOnly(t *testing.T) {
	p := newPlannedEmpty(t)
	p.exec("INSERT INTO leases (id, ttl, expires_at, due_at) SELECT l, 60, t, t " +
		"FROM generate_series(1, 1000) AS l, (SELECT now() + interval '10 s' AS t) AS t")
	p.exec("VACUUM leases")
	ids := make([]int64, 20)
	for i := range ids {
		ids[i] = int64(i * 50)
	}
	p.exec("BEGIN")
	for _, sql := range []string{renewLeases, renewLeases, extendLeases} {
		args := []any{ids}
		if sql == extendLeases {
			args = []any{int64(0), int64(20)}
		}
		if _, err := p.c.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	var updated, hot int
	err := p.c.QueryRow(t.Context(), "SELECT pg_stat_get_xact_tuples_updated(o), "+
		"pg_stat_get_xact_tuples_hot_updated(o) FROM (SELECT 'leases'::regclass AS o) AS o").Scan(&updated, &hot)
	if err != nil || updated != 58 || hot != updated {
		t.Errorf("%d rows updated, %d of them heap-only, %v", updated, hot, err)
	}
}

// TestLeasesThatAreDue finds the few leases that have ended among many that were renewed since they were granted, in
// queries with small limits. Those that have not ended are due when they end, except for one that is locked.
func TestLeasesThatAreDue(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	all := make([]backend.Lease, 50)
	for i := range all {
		all[i] = backend.Lease{ID: int64(i + 1), TTL: time.Hour}
	}
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(),
		&backend.Effects{Batch: 1, Revision: 1, Granted: all}); err != nil {
		t.Fatal(err)
	}
	admin(t, dsn, "UPDATE leases SET due_at = clock_timestamp() - interval '10 s' + id * interval '1 ms'")
	ended := []int64{3, 20, 30, 49, 50}
	admin(t, dsn, "UPDATE leases SET expires_at = due_at WHERE id IN (3, 20, 30, 49, 50)")
	locking, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locking.Close(context.Background()) }()
	if _, err := locking.Exec(t.Context(), "BEGIN; SELECT FROM leases WHERE id = 10 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 3, 4, 5, 6, 50, 60} {
		want := ended[:min(limit, len(ended))]
		for done, searches := false, 0; !done; searches++ {
			began := time.Now()
			ids, err := b.ExpiredLeases(t.Context(), limit)
			if err != nil || len(ids) > len(want) || !slices.Equal(ids, want[:len(ids)]) {
				t.Fatalf("limit %d: %v, %v", limit, ids, err)
			}
			done = len(ids) == len(want)
			if !done && (time.Since(began) < searchTime || searches == 20) {
				t.Fatalf("limit %d: search %d ended with %v", limit, searches, ids)
			}
		}
	}
	due := func() (n int) {
		admin(t, dsn, "SELECT count(*) FROM leases WHERE due_at < expires_at OR due_at > expires_at", &n)
		return n
	}
	if n := due(); n != 1 {
		t.Errorf("%d leases are due before they end", n)
	}
	if _, err := locking.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if ids, err := b.ExpiredLeases(t.Context(), 10); err != nil || !slices.Equal(ids, ended) || due() != 0 {
		t.Errorf("%v, %v; %d leases are due before they end", ids, err, due())
	}
}

// TestLeasesOfClockAhead renews, extends and imports leases that were granted by a server whose clock was ahead: they
// are due before they end.
func TestLeasesOfClockAhead(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	for name, shorten := range map[string]func() error{
		"renew": func() error {
			_, err := b.RenewLeases(t.Context(), []int64{1})
			return err
		},
		"extend": func() error {
			if _, err := b.Heartbeat(t.Context(), backend.Member{ID: 1}, time.Nanosecond, time.Nanosecond); err != nil {
				return err
			}
			_, err := b.ExtendLeases(t.Context())
			return err
		},
		"end": func() error {
			return begin(t, b, backend.Needs{}).Commit(t.Context(), &backend.Effects{Revision: 1, Ending: []int64{1}})
		},
		"remaining": func() error {
			return b.SetRemaining(t.Context(), backend.Import{}, map[int64]time.Duration{1: time.Minute})
		},
	} {
		admin(t, dsn, "DELETE FROM leases")
		admin(t, dsn, "INSERT INTO leases (id, ttl, expires_at, due_at) SELECT 1, 60, t, t "+
			"FROM (SELECT now() + interval '1 hour') AS t(t)")
		if err := shorten(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var ends, due float64
		admin(t, dsn, "SELECT extract(epoch FROM expires_at - now())::float8, extract(epoch FROM due_at - "+
			"expires_at)::float8 FROM leases WHERE due_at > '-infinity' UNION ALL SELECT 0, 0", &ends, &due)
		if ends > 61 || due > 0.5 {
			t.Errorf("%s: the lease ends in %g s and is due %g s after that", name, ends, due)
		}
	}
}
