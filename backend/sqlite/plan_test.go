package sqlite

import (
	"database/sql/driver"
	"strings"
	"testing"
)

// plan returns the steps of SQLite's plan for a statement.
func plan(t *testing.T, c *conn, query string) []string {
	t.Helper()
	s, err := c.c.Prepare("EXPLAIN QUERY PLAN " + query)
	if err != nil {
		t.Fatalf("%v: %s", err, query)
	}
	args := make([]driver.Value, s.NumInput())
	rows, err := s.Query(args) //nolint:staticcheck // the driver's own face, without database/sql
	if err != nil {
		t.Fatalf("%v: %s", err, query)
	}
	var steps []string
	row := make([]driver.Value, len(rows.Columns()))
	for rows.Next(row) == nil {
		steps = append(steps, row[3].(string))
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return steps
}

// TestPlans checks that every statement on the big table uses an index, in an order that needs no sorting.
func TestPlans(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	seen := 0
	for _, query := range statements {
		if !strings.Contains(query, "FROM object_versions") {
			continue
		}
		seen++
		for _, step := range plan(t, b.writer, query) {
			switch {
			case strings.HasPrefix(step, "SEARCH "), strings.HasPrefix(step, "CO-ROUTINE "),
				strings.HasPrefix(step, "SCALAR SUBQUERY "), strings.HasPrefix(step, "CORRELATED SCALAR SUBQUERY "),
				// of the co-routine's own rows
				step == "SCAN n", step == "SCAN j VIRTUAL TABLE INDEX 1:", step == "SCAN (subquery-1)":
			default:
				t.Errorf("%s\n\tof %s", step, query)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d statements on object_versions found", seen)
	}
}

// TestNewestIsCovered checks that the index alone selects the newest rows, and that a statement that needs the table
// reads it once for each returned row.
func TestNewestIsCovered(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	const joined = "SCAN n\nSEARCH v USING INTEGER PRIMARY KEY (rowid=?)"
	for id, rest := range map[statement]string{
		countRange: "", countRange + 1: "", newestKey: "",
		listRange: joined, listRange + 1: "", listRange + 2: joined, listRange + 3: "",
	} {
		steps := strings.Join(plan(t, b.writer, statements[id]), "\n")
		if !strings.Contains(steps, "SEARCH v USING COVERING INDEX "+keyIndex) || !strings.HasSuffix(steps, rest) {
			t.Errorf("not covered, or not joined row by row: %s\n%s", statements[id], steps)
		}
	}
}
