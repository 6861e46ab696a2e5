package powercut

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// cutsOfALife is how often the power of one database is cut.
const cutsOfALife = 12

func TestSQLite(t *testing.T) {
	s := newSQLite(t)
	s.live(t, env.Length.Count(t, 150))
	s.report.enough(t, map[string]int{"lost create": s.report.losses.Creates})
}

// TestSQLiteWithFailedSyncs lets a sync fail before the server is stopped and the power is cut: the system reports that
// once, and syncs that are tried again succeed without what that one has left out.
func TestSQLiteWithFailedSyncs(t *testing.T) {
	s := newSQLite(t)
	s.scenarios = failedSyncs
	s.live(t, 40)
	if s.report.failed == 0 {
		t.Errorf("no sync has failed in %d rounds", s.report.cuts)
	}
}

// A server that does not sync loses what it has acknowledged, and the test notices.
func TestSQLiteWithoutFsync(t *testing.T) {
	const cuts = 20
	seed := env.Seed.Uint(t, rand.Uint64())
	s := newSQLite(t, "--unsafe-no-fsync")
	lost := 0
	for tried := 0; tried < cuts; seed++ {
		n, err := s.begin(seed).live(min(cutsOfALife, cuts-tried))
		tried += n
		if err != nil {
			lost++
			t.Logf("found, as it should be: %.300s", err)
		}
	}
	if lost == 0 {
		t.Errorf("nothing was lost in %d cuts without fsync", cuts)
	}
	t.Logf("%d of %d cuts lost or damaged what was acknowledged", lost, cuts)
}

// sqlite makes lives on SQLite.
type sqlite struct {
	stage
	copy string // a directory for the files that are checked
}

func newSQLite(t *testing.T, args ...string) *sqlite {
	t.Helper()
	dir := directory(t)
	s := &sqlite{copy: filepath.Join(dir, "copy")}
	const startOperations = 60
	s.stage = stage{
		dir: filepath.Join(dir, "disk"), report: newReport(), scenarios: onSQLite, startOperations: startOperations,
		intact: s.intact,
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.servers = []*server{newServer(t, append([]string{
		"--data-dir", filepath.Join(s.dir, "data"), "--disk-reserve-bytes", "1MiB",
	}, args...)...)}
	return s
}

// live goes through so many cuts in one life after the other.
func (s *sqlite) live(t *testing.T, cuts int) {
	t.Helper()
	for seed := env.Seed.Uint(t, rand.Uint64()); s.report.cuts < cuts; seed++ {
		l := s.begin(seed)
		if n, err := l.live(min(cutsOfALife, cuts-s.report.cuts)); err != nil {
			l.fail(t, n, err)
		}
	}
	t.Log(s.report)
}

// begin begins a life, half of them with little space: a log of 4 MiB starts again from its beginning.
func (s *sqlite) begin(seed uint64) *life {
	l := &life{stage: &s.stage, seed: seed, birth: empty(disk.New())}
	if random(seed, 0).IntN(2) == 0 {
		const little, long = 100 << 20, 40_000
		l.disk.Free, l.record.Pad = little, long
	}
	return l
}

// intact runs SQLite's own check on what a disk holds.
func (s *sqlite) intact(d *disk.Disk) error {
	if err := os.RemoveAll(s.copy); err != nil {
		return err
	}
	if err := d.Export(s.copy); err != nil {
		return err
	}
	file := filepath.Join(s.copy, "data", "sqlstore.db")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Remove(file + "-shm"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := sql.Open("sqlite3", "file:"+file+"?_synchronous=OFF")
	if err != nil {
		return err
	}
	defer db.Close()
	var said string
	if err := db.QueryRowContext(context.Background(), "PRAGMA integrity_check").Scan(&said); err != nil {
		return fmt.Errorf("integrity check: %w", err)
	}
	if said != "ok" {
		return fmt.Errorf("integrity check: %s", said)
	}
	return nil
}
