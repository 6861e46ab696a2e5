package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// planned is a table without autovacuum, and a connection on which statements are explained.
type planned struct {
	t        *testing.T
	c        *pgx.Conn
	revision int64
	prepared int
}

func newPlannedEmpty(t *testing.T) *planned {
	t.Helper()
	dsn := database(t)
	openTest(t, Config{DSN: dsn})
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	p := &planned{t: t, c: c}
	p.exec("ALTER TABLE object_versions SET (autovacuum_enabled = off)")
	return p
}

// newPlanned returns a table of 20,000 keys with three versions each.
func newPlanned(t *testing.T) *planned {
	t.Helper()
	p := newPlannedEmpty(t)
	p.revision = 60_001
	p.exec("INSERT INTO object_versions (" +
		columns + ", batch, value, checksum, written_at) SELECT convert_to('/registry/pods/namespace-' || " +
		"lpad((k % 100)::text, 3, '0') || '/object-' || lpad(k::text, 7, '0'), 'UTF8'), 2 + v * 20000 + k, 0, false, " +
		"2 + k, v + 1, 0, CASE WHEN v = 0 THEN 0 ELSE 2 + (v - 1) * 20000 + k END, 1, " +
		"decode(repeat(md5(k::text), 8), 'hex'), 0, 0 " +
		"FROM generate_series(0, 2) AS v, generate_series(0, 19999) AS k")
	p.exec("UPDATE clock SET revision = 60001")
	return p
}

func (p *planned) exec(sql string) {
	p.t.Helper()
	if _, err := p.c.Exec(p.t.Context(), sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

// plan is what the server does for a prepared statement, as text.
func (p *planned) plan(sql string, args ...any) string {
	p.t.Helper()
	p.prepared++
	name := fmt.Sprint("s", p.prepared)
	p.exec("PREPARE " + name + " AS " + sql)
	return p.explain(name, args...)
}

func (p *planned) explain(name string, args ...any) string {
	p.t.Helper()
	return p.explainWith("ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF", name, args...)
}

func (p *planned) explainWith(options, name string, args ...any) string {
	p.t.Helper()
	var places []string
	for i := range args {
		places = append(places, fmt.Sprint("$", i+1))
	}
	explain := "EXPLAIN (" + options + ") EXECUTE " + name
	if len(args) > 0 {
		explain += "(" + strings.Join(places, ", ") + ")"
	}
	rows, err := p.c.Query(p.t.Context(), explain, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// asked removes the parts of a plan that never ran: those for long keys.
func asked(plan string) string {
	var lines []string
	for line := range strings.SplitSeq(plan, "\n") {
		if !strings.Contains(line, "(never executed)") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// check checks that a plan reads only what it needs, by an index, and nothing of the table where the index is enough.
func (p *planned) check(name string, indexOnly bool, sql string, args ...any) {
	p.t.Helper()
	got := asked(p.plan(sql, args...))
	bad := []string{"Seq Scan on object_versions", "Sort Key: key", "Sort Key: object_versions", "Hash", "Bitmap"}
	if indexOnly {
		bad = append(bad, "Index Scan using object_versions")
	}
	for _, s := range bad {
		if strings.Contains(got, s) {
			p.t.Errorf("%s: %q in\n%s", name, s, got)
		}
	}
	if !strings.Contains(got, "using object_versions_") {
		p.t.Errorf("%s: no index in\n%s", name, got)
	}
}

// TestPlans checks the cost of the statements, with plans for their arguments and generic ones: lists and lookups also
// without statistics of the table, all others after an ANALYZE, which a growing table gets.
func TestPlans(t *testing.T) {
	p := newPlanned(t)
	// A count of most of the table may read it in any way.
	part := []any{p.revision, []byte("/registry/pods/namespace-010/"), []byte("/registry/pods/namespace-0100")}
	for _, known := range []string{"nothing", "analyzed", "vacuumed"} {
		switch known {
		case "analyzed":
			p.exec("ANALYZE object_versions")
		case "vacuumed":
			p.exec("VACUUM ANALYZE object_versions")
		}
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(known+"/"+mode, func(t *testing.T) {
				q := *p
				q.t = t
				q.exec("DEALLOCATE ALL")
				q.exec("SET plan_cache_mode = " + mode)
				q.lists()
				if known != "nothing" {
					q.others()
				}
				if known == "vacuumed" { // otherwise the server reads the table, too, for the visibility of rows
					q.check("count of a part", true, countSQL[bounded], part...)
				} else if got := q.plan(countSQL[bounded], part...); strings.Contains(got,
					"Seq Scan on object_versions") {
					t.Errorf("count of a part: %s", got)
				}
			})
		}
	}
}

func (p *planned) lists() {
	span := []any{benchKey(10)[:29], []byte("/registry/q")}
	key := benchKey(77)
	for form, args := range [][]any{{key}, span, span[:1]} {
		name := fmt.Sprint("form ", form)
		p.check(name+" list", false, listSQL[form][0], append([]any{p.revision, int64(100)}, args...)...)
		if form != single {
			p.check(name+" list within bytes", false, listWithinSQL[form],
				append(append([]any{p.revision, int64(100)}, args...), int64(1<<20))...)
			p.check(name+" list sparing large values", false, listSparingSQL[form],
				append([]any{p.revision, int64(100)}, args...)...)
		}
		sql, held := underPin(1, listSQL[form][0], append([]any{p.revision, int64(100)}, args...))
		p.check(name+" list under a pin", false, sql, held...)
		p.check(name+" keys", true, listSQL[form][1], append([]any{p.revision, int64(100)}, args...)...)
		p.check(name+" load", false, loadSpanSQL[form], append([]any{int64(math.MaxInt64), int64(100)}, args...)...)
	}
	p.check("count of a key", true, countSQL[single], p.revision, key)
	p.check("keys of a transaction", false, loadKeys, [][]byte{key, benchKey(3)})
	p.check("rows by id", false, rowsByID, []int64{5, 77, 999}, []int32{0, 0, 0})
	p.check("rows by id sparing large values", false, rowsSparing, []int64{5, 77, 999}, []int32{0, 0, 0})
	p.check("rows by id within bytes", false, rowsWithin, []int64{5, 77, 999}, []int32{0, 0, 0}, int64(1<<20))
}

func (p *planned) others() {
	revisions, ordinals := make([]int64, 1000), make([]int32, 1000)
	for i := range revisions {
		revisions[i] = 2 + int64(i)
	}
	p.check("superseded", false, supersededRows, revisions, ordinals, p.revision)
	span := []any{benchKey(10)[:29], []byte("/registry/q")}
	key := benchKey(77)
	for prev := range 2 {
		p.check("tail", false, tailStatement(binaryOrigin.once(), prev == 1, false),
			p.revision-10, int64(math.MaxInt64), int64(100), int64(1<<20))
		for form, args := range [][]any{nil, {key}, span, span[:1]} {
			p.check(fmt.Sprint("history ", form), false, historySQL[form][prev][0],
				append([]any{p.revision - 100, p.revision, int64(100)}, args...)...)
		}
	}
}

// TestGrowthIsNoticed grows the table from nothing while a connection keeps a plan for reading it: the planner notices
// the growth, and the cached plan uses the index.
func TestGrowthIsNoticed(t *testing.T) {
	b := openTest(t, Config{DSN: database(t)})
	f := newFiller(t, b, 2000, 64)
	get := func() {
		_, _, err := b.Range(t.Context(),
			backend.RangeQuery{Span: backend.Span{Start: benchKey(7)}, Revision: f.revision, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // often enough that the server chooses a generic plan
		get()
	}
	for range 4 {
		f.all()
	}
	b.work.Wait()
	get()
	known := int64(0)
	err := b.reads.query(t.Context(), "ask", nil, func(s *scanner) error { known = s.integer(); return nil },
		"SELECT reltuples::bigint FROM pg_class WHERE oid = 'object_versions'::regclass")
	if err != nil || known < 2000 {
		t.Errorf("the planner knows of %d rows, %v", known, err)
	}
	kept := 0
	for _, c := range b.reads.pool.AcquireAllIdle(t.Context()) {
		var name string
		err := c.QueryRow(t.Context(), "SELECT name FROM pg_prepared_statements WHERE statement = $1",
			listSQL[single][0]).Scan(&name)
		if errors.Is(err, pgx.ErrNoRows) {
			c.Release()
			continue
		}
		p := planned{t: t, c: c.Conn()}
		got := p.explain(name, f.revision, int64(1), benchKey(7))
		if !strings.Contains(got, "Index Scan using object_versions_namespace") ||
			strings.Contains(got, "Seq Scan on object_versions") {
			t.Errorf("the cached plan:\n%s", got)
		}
		kept++
		c.Release()
	}
	if kept == 0 {
		t.Error("no connection has kept the statement")
	}
}
