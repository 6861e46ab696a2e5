package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// newHot returns a table of 100,000 rows in which so many keys are put and deleted in turn.
func newHot(t *testing.T, keys int) *planned {
	t.Helper()
	p := newPlannedEmpty(t)
	p.revision = 100_001
	p.exec(strings.ReplaceAll("INSERT INTO object_versions ("+columns+", batch, value, checksum, written_at) SELECT "+
		"convert_to('/locks/' || r % $keys, 'UTF8'), 2 + r, 0, gone, CASE WHEN gone THEN 0 ELSE 2 + r END, "+
		"CASE WHEN gone THEN 0 ELSE 1 END, 0, CASE WHEN gone THEN 2 + r - $keys ELSE 0 END, 1, "+
		"CASE WHEN NOT gone THEN 'v'::bytea END, 0, 0 "+
		"FROM (SELECT r, r / $keys % 2 = 1 AS gone FROM generate_series(0, 99999) AS r) AS n",
		"$keys", fmt.Sprint(keys)))
	p.exec("UPDATE clock SET revision = 100001")
	return p
}

// TestPlansOfPurge checks that no statement of a purge reads the table, however the versions are spread over keys.
func TestPlansOfPurge(t *testing.T) {
	t.Parallel()
	for shape, fill := range map[string]func(*testing.T) *planned{
		"many keys with few versions": newPlanned,
		"few keys with many versions": func(t *testing.T) *planned { return newHot(t, 100) },
		"a key with all versions":     func(t *testing.T) *planned { return newHot(t, 1) },
	} {
		t.Run(shape, func(t *testing.T) {
			p := fill(t)
			for _, known := range []string{"ANALYZE object_versions", "VACUUM ANALYZE object_versions"} {
				p.exec(known)
				for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
					t.Run(strings.ReplaceAll(known+" "+mode, " ", "_"), func(t *testing.T) {
						q := *p
						q.t = t
						q.exec("DEALLOCATE ALL")
						q.exec("SET plan_cache_mode = " + mode)
						q.purges()
					})
				}
			}
		})
	}
}

func (p *planned) purges() {
	p.exec("BEGIN") // an explained DELETE deletes
	defer p.exec("ROLLBACK")
	var keys [][]byte
	rows, err := p.c.Query(p.t.Context(), "SELECT DISTINCT key FROM (SELECT key FROM object_versions "+
		"ORDER BY resource_version LIMIT 500) AS n", pgx.QueryExecModeExec)
	for err == nil && rows.Next() {
		var key []byte
		err = rows.Scan(&key)
		keys = append(keys, key)
	}
	if err != nil || rows.Err() != nil {
		p.t.Fatal(err, rows.Err())
	}
	for _, n := range []int{8, 500} {
		first, until := int64(40_000), p.revision
		revisions, ordinals, at := make([]int64, n), make([]int32, n), make([]int64, min(n, len(keys)))
		for i := range revisions {
			revisions[i] = first + int64(i)
		}
		for i := range at {
			at[i] = first
		}
		p.check("purge", false, purgeRows, first, int32(0), until, int64(n))
		p.check("delete", false, deleteRows, revisions, ordinals)
		p.check("delete older", false, deleteOlder, keys[:len(at)], at, make([]int64, len(at)))
	}
}
