package sqlite

import (
	"database/sql/driver"
	"fmt"
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

// TestPlans checks that every statement on the big table uses an index, in an order that needs no sorting: without
// statistics, as sqlstore makes none, and with those that a person may have made of a table of many keys with few
// versions, or of few keys with many versions.
func TestPlans(t *testing.T) {
	for _, keys := range []int{0, 5_000, 100, 1} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			b := openTest(t, Config{Temporary: true})
			if keys > 0 {
				analyze(t, b.writer, keys)
			}
			checkPlans(t, b.writer)
		})
	}
}

// analyze makes statistics of 20,000 rows, in which so many keys are put and deleted in turn.
func analyze(t *testing.T, c *conn, keys int) {
	t.Helper()
	for _, sql := range []string{
		strings.ReplaceAll("WITH RECURSIVE n (r) AS (SELECT 0 UNION ALL SELECT r + 1 FROM n WHERE r < 19999) "+
			"INSERT INTO object_versions (id, resource_version, key, deleted, create_revision, version, lease, "+
			"previous_version, value, checksum, written_at) SELECT (2 + r) << 20, 2 + r, "+
			"CAST('/locks/' || r % $keys AS BLOB), r / $keys % 2, 2 + r, 1, 0, max(0, 2 + r - $keys), "+
			"CASE WHEN r / $keys % 2 = 0 THEN x'01' END, 0, 0 FROM n",
			"$keys", fmt.Sprint(keys)),
		"ANALYZE",
	} {
		if err := c.exec(sql); err != nil {
			t.Fatal(err)
		}
	}
}

func checkPlans(t *testing.T, c *conn) {
	t.Helper()
	seen := 0
	for _, query := range statements {
		if !strings.Contains(query, "FROM object_versions") {
			continue
		}
		seen++
		if _, packed, ok := strings.Cut(query, "sqlstore_pack('"); ok {
			query, _, _ = strings.Cut(packed, "'")
		}
		for _, step := range plan(t, c, query) {
			switch {
			case strings.HasPrefix(step, "SEARCH "), strings.HasPrefix(step, "CO-ROUTINE "),
				strings.HasPrefix(step, "SCALAR SUBQUERY "), strings.HasPrefix(step, "CORRELATED SCALAR SUBQUERY "),
				step == "SCAN clock", // which has one row
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
