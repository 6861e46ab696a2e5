package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// plan is what the server would do for a statement, as text.
func plan(t *testing.T, b *Backend, sql string, args ...any) string {
	t.Helper()
	c, err := b.pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	rows, err := c.Query(context.Background(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestPlans holds the statements to what they cost: no scan or sort of the table, and no look at it where the index is enough. The
// tables have grown from nothing under the connections that read them, so plans that were made for an empty table would show.
func TestPlans(t *testing.T) {
	b := openTest(t, Config{DSN: database(t)})
	f := newFiller(t, b, 5000, 64)
	for range 3 {
		f.all()
	}
	b.work.Wait() // the planner knows what there is
	span := []any{[]byte("/registry/pods/namespace-010/"), []byte("/registry/q")}
	key := f.rows[77].Key
	revisions, ordinals := []int64{5, 77, 999}, []int32{0, 0, 0}
	check := func(name string, indexOnly bool, sql string, args ...any) {
		t.Helper()
		p := plan(t, b, sql, args...)
		bad := []string{"Seq Scan on object_versions", "Sort Key: key", "Sort Key: object_versions", "Hash", "Bitmap"}
		if indexOnly {
			bad = append(bad, "Index Scan using object_versions")
		}
		for _, s := range bad {
			if strings.Contains(p, s) {
				t.Errorf("%s: %q in\n%s", name, s, p)
			}
		}
		if !strings.Contains(p, "using object_versions_") {
			t.Errorf("%s: no index in\n%s", name, p)
		}
	}
	for form, args := range [][]any{{key}, span, span[:1]} {
		name := fmt.Sprint("form ", form)
		check(name+" list", false, listSQL[form][0], append([]any{f.revision, int64(100)}, args...)...)
		check(name+" keys", true, listSQL[form][1], append([]any{f.revision, int64(100)}, args...)...)
		check(name+" load", false, loadSpanSQL[form], append([]any{int64(math.MaxInt64), int64(100)}, args...)...)
		if form == single {
			check(name+" count", true, countSQL[form], f.revision, key)
		}
	}
	// A count of most of the table may read it in any way; one of a small part must not.
	check("count", true, countSQL[bounded], f.revision, []byte("/registry/pods/namespace-010/"), []byte("/registry/pods/namespace-0100"))
	check("keys of a transaction", false, loadKeys, [][]byte{key, f.rows[3].Key})
	check("rows by id", false, rowsByID, revisions, ordinals)
	for prev := range 2 {
		check("tail", false, tailSQL[prev], f.revision-10, int64(math.MaxInt64), int64(100))
		for form, args := range [][]any{nil, {key}, span, span[:1]} {
			check(fmt.Sprint("history ", form), false, historySQL[form][prev][0],
				append([]any{f.revision - 100, f.revision, int64(100)}, args...)...)
		}
	}
	check("purge", false, purgeRows, int64(100), int32(0), int64(5000), int64(100))
	check("delete", false, deleteRows, revisions, ordinals)
}

// TestGrowthIsNoticed reads single keys by the same connection from the empty table on.
func TestGrowthIsNoticed(t *testing.T) {
	b := openTest(t, Config{DSN: database(t)})
	f := newFiller(t, b, 2000, 64)
	get := func() {
		_, _, err := b.Range(t.Context(), backend.RangeQuery{Span: backend.Span{Start: benchKey(7)}, Revision: f.revision, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // so often that the server takes a plan for all arguments
		get()
	}
	for range 4 {
		f.all()
	}
	b.work.Wait()
	c, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	rows := int64(0)
	err = scan(t.Context(), c.Conn(), func(s *scanner) error { rows = s.integer(); return nil },
		"SELECT reltuples::bigint FROM pg_class WHERE oid = 'object_versions'::regclass", nil)
	if err != nil || rows < 2000 {
		t.Errorf("the planner knows of %d rows, %v", rows, err)
	}
}
