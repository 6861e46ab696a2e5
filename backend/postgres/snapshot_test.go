package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// openSnapshot keeps vacuum from removing any row version that is visible now, as pg_dump does, until the test ends.
func openSnapshot(t *testing.T, dsn string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT revision FROM clock"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// ofClock matches the part of a plan that reads the clock: how, and how many pages that took.
var ofClock = regexp.MustCompile(`(\w[\w ]* Scan[\w ]*) on clock\b.*\n(?:.*(?:Cond|Filter|Fetches).*\n)*` +
	` *Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// pagesOfClock explains a prepared statement, and returns how many pages of the clock and its index it reads.
func (p *planned) pagesOfClock(name string, args ...any) (pages int) {
	p.t.Helper()
	plan := p.explainWith("ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF", name, args...)
	found := ofClock.FindAllStringSubmatch(plan, -1)
	if len(found) == 0 || strings.Contains(plan, "Seq Scan on clock") {
		p.t.Errorf("reads the clock by no index:\n%s", plan)
	}
	for _, m := range found {
		for _, s := range m[2:] {
			n, _ := strconv.Atoi(s)
			pages += n
		}
	}
	return pages
}

// TestClockUnderSnapshot advances the clock two thousand times under an open snapshot, which keeps all its versions:
// statements that read the clock read no more pages of it, even with old plans.
func TestClockUnderSnapshot(t *testing.T) {
	t.Parallel()
	const moves, most = 2000, 8 // all versions are in some twenty pages
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	p := planned{t: t, c: c}
	p.exec("VACUUM ANALYZE clock")
	p.exec("ALTER TABLE clock SET (autovacuum_enabled = off)")
	p.exec("SET plan_cache_mode = force_generic_plan")
	key := []byte("k")
	statements := []struct {
		name, sql string
		args      []any
	}{
		{"lock", b.features.lock, nil},
		{"head", b.features.head, nil},
		{"clock", readClock, nil},
		{"target", readTarget, nil},
		{"size", readSize, nil},
		{"tail", b.features.tail[0][0], []any{int64(1 << 40), int64(1 << 41), int64(10), int64(10)}},
		{"list", listSQL[single][0], []any{int64(1), int64(1), key}},
		{"pin", insertPin, []any{int64(1), int64(1), int64(1)}},
		{"move", moveClock, []any{
			int64(1 << 40), int64(0), int64(0), int64(0), int64(1), int64(1), int64(moves + 1),
		}},
		{"epoch", raiseEpoch, []any{int64(2), int64(moves + 1)}},
	}
	for _, s := range statements {
		p.exec("PREPARE " + s.name + " AS " + s.sql)
	}
	pages := func(revision int64) map[string]int {
		got := map[string]int{}
		for _, s := range statements {
			if n := len(s.args); s.name == "move" || s.name == "epoch" {
				s.args[n-1] = revision
			}
			p.exec("BEGIN")
			got[s.name] = p.pagesOfClock(s.name, s.args...)
			p.exec("ROLLBACK")
		}
		return got
	}
	before := pages(1)
	openSnapshot(t, dsn)
	for revision := int64(2); revision <= moves+1; revision++ {
		tx := begin(t, b, backend.Needs{})
		if err := tx.Commit(t.Context(), &backend.Effects{Revision: revision, Batch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var dead int
	admin(t, dsn, "SELECT pg_relation_size('clock') / 8192", &dead)
	after := pages(moves + 1)
	for name, n := range after {
		if n > most {
			t.Errorf("%s reads %d pages of the clock, %d before", name, n, before[name])
		}
	}
	t.Logf("of %d pages: %v, before: %v", dead, after, before)
}

// TestLeasesKeepClock commits changes without a revision: the clock's row keeps its version.
func TestLeasesKeepClock(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	var before, after string
	admin(t, dsn, "SELECT ctid::text FROM clock", &before)
	for id := range int64(3) {
		e := &backend.Effects{Revision: 1, Batch: 1, Granted: []backend.Lease{{ID: id + 1, TTL: 1e9}}}
		if err := begin(t, b, backend.Needs{}).Commit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if admin(t, dsn, "SELECT ctid::text FROM clock", &after); before != after {
		t.Errorf("the clock's row was at %s and is at %s", before, after)
	}
	if leases, err := b.Leases(t.Context()); err != nil || len(leases) != 3 {
		t.Errorf("leases %v, %v", leases, err)
	}
}

// TestClockIsHandedOver makes several writers wait for the clock while others advance it, also to other pages:
// each sees it as the previous writer left it, not as it was when the wait began.
func TestClockIsHandedOver(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 100
	dsn := database(t)
	openTest(t, Config{DSN: dsn})
	openSnapshot(t, dsn)
	var wg sync.WaitGroup
	for w := range writers {
		b := openTest(t, Config{DSN: dsn})
		wg.Go(func() {
			for i := range each {
				tx, err := b.Begin(t.Context(), backend.Needs{})
				if err != nil {
					t.Error(err)
					return
				}
				e := row(fmt.Sprint(w, "/", i), tx.Loaded().Clock.Revision+1)
				if err := tx.Commit(t.Context(), e); err != nil { // another wrote that revision
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var clock, rows int64
	admin(t, dsn, "SELECT revision FROM clock", &clock)
	admin(t, dsn, "SELECT count(*) FROM object_versions", &rows)
	if clock != 1+writers*each || rows != writers*each {
		t.Errorf("the clock is at %d after %d rows", clock, rows)
	}
}

// TestClockIsOneRow tries to add another.
func TestClockIsOneRow(t *testing.T) {
	dsn := database(t)
	openTest(t, Config{DSN: dsn})
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	const columns = "id, revision, compacted, incarnation, batch, alarms, bytes"
	if _, err := c.Exec(t.Context(), "INSERT INTO clock ("+columns+") VALUES (1, 7, 0, 1, 0, 0, 0)"); err == nil {
		t.Error("inserted another row")
	}
	if _, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader("1\t7\t0\t1\t0\t0\t0\n"),
		"COPY clock ("+columns+") FROM STDIN"); err == nil {
		t.Error("copied another row")
	}
}
