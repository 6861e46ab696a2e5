package sqlite

import (
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// restore restores a backup as the shell does, under a server.
func restore(t *testing.T, path, backup string) {
	t.Helper()
	if out, err := exec.Command("sqlite3", path, ".restore "+backup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// What sqlite3's .restore writes under a server that does nothing is noticed all the same. No acknowledged write is
// lost without a trace: it is there after the next start, or that start knows that an older state was restored.
func TestRestoredUnderIdleServer(t *testing.T) {
	for name, copied := range map[string]bool{"log": false, "log and file": true} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			noticed := &awaited{message: "refuses writes and reads", logged: make(chan struct{})}
			b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(noticed, nil))})
			writeKeys(t, b, "a", "b")
			copyWithSQLite(t, path, backup)
			writeKeys(t, b, "c", "d", "e")
			acknowledged := revision(t, b)
			if copied {
				copyAll(t, b)
			}
			restore(t, path, backup)
			<-noticed.logged
			if rows, err := list(t, b); !errors.Is(err, errOverwritten) {
				t.Errorf("%d keys can be read, %v", len(rows), err)
			}
			crashed := crashCopy(t, path)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			for _, path := range []string{crashed, path} {
				b := openAfterRestore(t, path)
				if r := revision(t, b); r != acknowledged && b.Restored().Revision != acknowledged {
					t.Errorf("revision %d, restored to %d; acknowledged: %d", r, b.Restored().Revision, acknowledged)
				}
			}
		})
	}
}

// A crash's log leads on from a copy of the file that another program made before, whose pages have no valid checksums.
// It belongs to that copy.
func TestLogLeadsOnFromCopy(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a", "b")
	copyWithSQLite(t, path, backup)
	writeKeys(t, b, "c")
	crashed := crashCopy(t, path)
	copyFile(t, backup, crashed)
	for range 2 {
		b := openTest(t, Config{Path: crashed})
		if rows, err := list(t, b); len(rows) != 3 || err != nil {
			t.Errorf("%d keys, %v", len(rows), err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A purge removes nothing from a backup that another program restores while it runs.
func TestPurgeAfterRestoredBackup(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
	b := openTest(t, Config{Path: path})
	keys := []string{"a", "b", "c", "d", "e"}
	writeKeys(t, b, keys...)
	copyWithSQLite(t, path, backup)
	at := revision(t, b)
	again := &backend.Effects{Revision: at + 1, Compacted: at + 1}
	for i, key := range keys {
		again.Rows = append(again.Rows, backend.Row{
			Key: []byte(key), Value: []byte("new"), ModRevision: at + 1, Ordinal: int32(i), Version: 2,
			CreateRevision: int64(i) + 2, PrevRevision: int64(i) + 2,
		})
	}
	tx, err := b.Begin(t.Context(), backend.Needs{})
	if err == nil {
		err = tx.Commit(t.Context(), again)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Purge(t.Context(), 1, b.clock.Load().Compacted); err != nil {
		t.Fatal(err)
	}
	restore(t, path, backup)
	for res := (backend.PurgeResult{}); err == nil && !res.Done; {
		res, err = b.Purge(t.Context(), 1, b.clock.Load().Compacted)
	}
	if !errors.Is(err, errOverwritten) {
		t.Errorf("purge: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if rows, err := list(t, openAfterRestore(t, path)); len(rows) != len(keys) || err != nil {
		t.Errorf("%d keys, %v", len(rows), err)
	}
}
