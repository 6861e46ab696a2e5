package pagesum_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// TestRolledBackFramesDoNotReturn rolls back a transaction whose pages did not fit into the cache. The next one, of
// another connection, writes to the same place of the log.
func TestRolledBackFramesDoNotReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, other := open(t, path, ""), open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = 10",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", fill)
	run(t, other, "PRAGMA wal_autocheckpoint = 0")
	for pages := range 20 {
		// From one time to another, more of the spilled pages are in the buffer at the end.
		update := fmt.Sprintf("UPDATE t SET v = hex(randomblob(900)) WHERE id %% 50 = 1 AND id < %d", 500+50*pages)
		// A read of a page of the log would write the buffer to the file.
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)", "BEGIN", update, "ROLLBACK")
		run(t, other, update)
		want := mustRead(t, other)
		run(t, db, "INSERT INTO t VALUES (-1, NULL)", "DELETE FROM t WHERE id = -1")
		if got := mustRead(t, open(t, path, "")); got != want {
			t.Fatalf("%d pages: %q, want %q", 10+pages, got, want)
		}
	}
}

// TestRollbackInExclusiveMode is the same where SQLite takes no lock for the transaction. The connection leaves that
// mode after the rollback or before it.
func TestRollbackInExclusiveMode(t *testing.T) {
	const update = "UPDATE t SET v = hex(randomblob(900)) WHERE id % 50 = 1 AND id < 1000"
	for _, then := range [][]string{
		{"ROLLBACK", "PRAGMA locking_mode = NORMAL", "SELECT 1 FROM sqlite_schema"},
		{"PRAGMA locking_mode = NORMAL", "ROLLBACK"},
	} {
		path := filepath.Join(t.TempDir(), "db")
		db := open(t, path, "")
		run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = 10",
			"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", fill, "PRAGMA locking_mode = EXCLUSIVE",
			"INSERT INTO t VALUES (-1, NULL)", "DELETE FROM t WHERE id = -1", "PRAGMA wal_checkpoint(TRUNCATE)")
		run(t, db, append([]string{"BEGIN", update}, then...)...)
		other := open(t, path, "")
		run(t, other, "PRAGMA wal_autocheckpoint = 0", update)
		want := mustRead(t, other)
		for _, reader := range []string{"the first connection", "a new one"} {
			if got, err := read(db); got != want || err != nil {
				t.Errorf("%q: %s reads %q, %v, want %q", then, reader, got, err, want)
			}
			db = open(t, path, "")
		}
	}
}

// TestRandomTransactions runs random transactions of two connections with small caches, and the same in memory.
func TestRandomTransactions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		path := filepath.Join(t.TempDir(), "db")
		memory := open(t, ":memory:", "")
		parameters := []string{"", "&psow=0"}[r.IntN(2)] // psow=0: SQLite repeats the last frame of a commit
		first, second := open(t, path, parameters), open(t, path, parameters)
		run(t, first, fmt.Sprintf("PRAGMA page_size = %d", 512<<r.IntN(8)), "PRAGMA journal_mode = WAL")
		for _, db := range []*sql.DB{first, second} {
			run(t, db, fmt.Sprintf("PRAGMA cache_size = %d", 5+r.IntN(30)),
				fmt.Sprintf("PRAGMA synchronous = %d", r.IntN(4)),
				fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", r.IntN(3)*50))
		}
		for _, db := range []*sql.DB{first, memory} {
			run(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "CREATE INDEX i ON t (v)")
		}
		for n := range 25 {
			statements := randomTransaction(r)
			run(t, memory, statements...)
			run(t, []*sql.DB{first, second}[r.IntN(2)], statements...)
			want := mustRead(t, memory)
			if got, err := read(open(t, path, "")); err != nil || got != want {
				t.Fatalf("seed %d, after %d transactions: %q, %v, want %q", seed, n+1, got, err, want)
			}
			if r.IntN(6) == 0 {
				mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[r.IntN(4)]
				run(t, second, "PRAGMA wal_checkpoint("+mode+")")
			}
		}
		var sound string
		if err := first.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
			t.Errorf("seed %d: integrity check: %q, %v", seed, sound, err)
		}
	}
}

// randomTransaction returns the statements of a transaction that has the same effect wherever it runs.
func randomTransaction(r *rand.Rand) []string {
	statements, savepoints := []string{"BEGIN"}, 0
	for range 1 + r.IntN(8) {
		id, number := r.IntN(300), r.IntN(100_000)
		switch r.IntN(8) {
		case 0, 1, 2:
			statements = append(statements, fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 "+
				"FROM n WHERE i < %d) INSERT OR REPLACE INTO t SELECT i, printf('%%0*d', 20 + i %% 90, "+
				"i * 7919 + %d) FROM n", id, id+r.IntN(120), number))
		case 3, 4:
			statements = append(statements, fmt.Sprintf("UPDATE t SET v = printf('%%0*d', 20 + id %% 90, "+
				"id * 31 + %d) WHERE id %% %d = 0", number, 1+r.IntN(20)))
		case 5:
			statements = append(statements, fmt.Sprintf("DELETE FROM t WHERE id BETWEEN %d AND %d", id, id+30))
		case 6:
			savepoints++
			statements = append(statements, fmt.Sprintf("SAVEPOINT s%d", savepoints))
		case 7:
			if savepoints > 0 {
				savepoints = 1 + r.IntN(savepoints) // the later ones are gone
				statements = append(statements, fmt.Sprintf("ROLLBACK TO s%d", savepoints))
			}
		}
	}
	return append(statements, []string{"COMMIT", "COMMIT", "ROLLBACK"}[r.IntN(3)])
}
