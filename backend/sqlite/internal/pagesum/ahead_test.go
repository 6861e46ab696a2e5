package pagesum_test

import (
	"path/filepath"
	"sync"
	"testing"
)

const (
	generationRows  = 900 // three in a page
	generations     = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, filler BLOB)"
	fillGenerations = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) " +
		"INSERT INTO t SELECT i, 0, zeroblob(1200) FROM n"
	nextGeneration = "UPDATE t SET v = v + 1"
)

// TestReadAheadEndsWithTheSnapshot reads half of a table, so that what follows is read ahead. Then another connection
// changes all pages of the file.
func TestReadAheadEndsWithTheSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	reader, writer := open(t, path, ""), open(t, path, "")
	run(t, writer, "PRAGMA journal_mode = WAL", generations, fillGenerations, "PRAGMA wal_checkpoint(TRUNCATE)")
	run(t, reader, "PRAGMA cache_size = 5")
	for half := range 2 {
		var rows, sum int
		err := reader.QueryRow("SELECT count(*), sum(v) FROM (SELECT v FROM t WHERE id > ? ORDER BY id LIMIT ?)",
			half*generationRows/2, generationRows/2).Scan(&rows, &sum)
		if err != nil || rows != generationRows/2 || sum != half*rows {
			t.Errorf("half %d: %d rows, the sum of their generations is %d; %v", half, rows, sum, err)
		}
		run(t, writer, nextGeneration, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
}

// TestReadAheadBesideCheckpoints reads a table from one end to the other while each transaction changes all of it and
// is copied to the file.
func TestReadAheadBesideCheckpoints(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	writer := open(t, path, "")
	run(t, writer, "PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", generations, fillGenerations)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		reader := open(t, path, "")
		run(t, reader, "PRAGMA cache_size = 5")
		wg.Go(func() {
			for {
				var rows, oldest, newest int
				if err := reader.QueryRow("SELECT count(*), min(v), max(v) FROM t NOT INDEXED").Scan(
					&rows, &oldest, &newest); err != nil || rows != generationRows || oldest != newest {
					t.Errorf("%d rows of the generations %d to %d: %v", rows, oldest, newest, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 100 {
		run(t, writer, nextGeneration, "PRAGMA wal_checkpoint(PASSIVE)")
	}
	close(done)
	wg.Wait()
}
