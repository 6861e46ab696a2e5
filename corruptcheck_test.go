package sqlstore_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
)

// damageRow changes a column of a row in SQLite's file, with a program that knows nothing of checksums.
func damageRow(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(dir, "sqlstore.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE object_versions SET version = 7 WHERE resource_version = 2")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A periodic check raises the alarm for damage that nobody has read, and an initial one then refuses to start.
func TestCorruptChecks(t *testing.T) {
	for name, checks := range map[string]sqlstore.CorruptChecks{
		"periodic":         {Initial: true, Period: 10 * time.Millisecond},
		"after compaction": {Initial: true, CompactionPeriod: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, c := start(t, sqlstore.Config{DataDir: dir, CorruptChecks: checks})
			for _, key := range []string{"a", "b", "c"} {
				if _, err := c.Put(t.Context(), key, "v"); err != nil {
					t.Fatal(err)
				}
			}
			damageRow(t, dir)
			if checks.CompactionPeriod > 0 { // a periodic check may have raised the alarm already
				if _, err := c.Compact(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
			}
			for alarmed := false; !alarmed; { // until the test's deadline
				res, err := c.AlarmList(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				alarmed = len(res.Alarms) == 1 && res.Alarms[0].Alarm == pb.AlarmType_CORRUPT
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := sqlstore.Start(t.Context(), sqlstore.Config{DataDir: dir, CorruptChecks: checks})
			if err == nil {
				_ = again.Close()
			}
			if !errors.Is(err, backend.ErrCorrupt) {
				t.Errorf("a start on a corrupt database: %v", err)
			}
		})
	}
}
