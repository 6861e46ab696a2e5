package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/test/powercut/disk"
	"github.com/sqlstore/sqlstore/test/support/env"
)

// TestPostgresMigration cuts the power while two replicas migrate a Postgres database from an older schema, after loads
// and other cuts. A migration is one transaction: the next start finds all of it or nothing, and completes it.
func TestPostgresMigration(t *testing.T) {
	cuts, seed := env.Count(t, "SQLSTORE_TEST_CUTS", 150), env.Seed(t, "SQLSTORE_TEST_SEED", rand.Uint64())
	cuts = max(1, cuts/sharePostgres)
	s, created := newPostgres(t)
	s.migrations = &migrations{}
	for s.report.cuts < cuts {
		l := &life{stage: s, birth: empty(created.Clone()), seed: seed}
		s.migrations.begun = 0
		if n, err := l.live(min(cutsOfALife, cuts-s.report.cuts)); err != nil {
			l.fail(t, n*sharePostgres, err)
		}
		seed++
	}
	t.Logf("%s\n%s", s.report, s.migrations)
	const few = 50
	if m := s.migrations; cuts >= few && (m.undone == 0 || m.whole == 0) {
		t.Errorf("of %d cut migrations, %d were undone and %d kept", m.undone+m.whole, m.undone, m.whole)
	}
}

// migrations makes the replicas of a stage migrate, and cuts the power meanwhile.
type migrations struct {
	newest int // the version that the replicas migrate to; 0 until the first one has done so
	begun  int // the version from which a migration began whose result is not known yet; 0 if there is none
	// undone and whole count the results of migrations that were cut, uncut those that ended before their cut.
	undone, whole, uncut int
}

func (m *migrations) String() string {
	return fmt.Sprintf("%d migrations were cut, of which %d were undone and %d kept; %d ended before the cut",
		m.undone+m.whole, m.undone, m.whole, m.uncut)
}

// prepare checks the result of a migration that was cut. Then it mostly takes the schema back to an older version, and
// aims at the migration that the next start begins.
func (m *migrations) prepare(l *life) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, l.database.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	version, err := schemaVersion(ctx, conn)
	if err != nil || version == 0 {
		return err
	}
	switch {
	case m.begun == 0 || version == m.newest:
		m.whole += min(m.begun, 1)
	case version == m.begun:
		m.undone++
	default:
		return fmt.Errorf("a migration from version %d to %d that was cut left version %d", m.begun, m.newest, version)
	}
	m.begun = 0
	const others = 3 // one in so many starts does not migrate, so that it comes to a load
	if l.IntN(others) == 0 {
		return nil
	}
	if to := 1 + l.IntN(m.newest-1); version > to {
		if err := m.back(ctx, l, conn, to); err != nil {
			return err
		}
		version = to
	}
	if l.IntN(2) == 0 {
		if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
			return err
		}
	}
	const operations, syncs = 100, 5
	aim := disk.Aim{At: 1 + l.IntN(operations)}
	if l.IntN(2) == 0 { // around the commit
		aim = disk.Aim{Matches: below(disk.Sync, "/data/pg_wal"), At: 1 + l.IntN(syncs)}
	}
	m.begun = version
	l.disk.Arm(aim)
	return nil
}

// back takes the schema back to an older version.
func (m *migrations) back(ctx context.Context, l *life, conn *pgx.Conn, to int) error {
	// The replicas have lost their power, so nobody has to wait until their heartbeats are old.
	if _, err := conn.Exec(ctx, "DELETE FROM members"); err != nil {
		return err
	}
	down := exec.CommandContext(ctx, l.servers[0].args[0], "schema", "down", "--to", strconv.Itoa(to), "--yes")
	down.Env = append(os.Environ(), "SQLSTORE_DATASTORE="+l.database.dsn)
	if out, err := down.CombinedOutput(); err != nil {
		return fmt.Errorf("schema down --to %d: %w\n%s", to, err, out)
	}
	return nil
}

// done checks that the replicas have migrated, since they serve.
func (m *migrations) done(l *life) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, l.database.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if m.newest == 0 {
		m.newest = version
	}
	if version != m.newest {
		return fmt.Errorf("the replicas serve, but the schema has version %d, want %d", version, m.newest)
	}
	m.uncut += min(m.begun, 1)
	m.begun = 0
	return nil
}

// schemaVersion returns the version of a database, 0 before its first migration.
func schemaVersion(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var there, dirty bool
	err = conn.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err == nil && dirty {
		err = fmt.Errorf("schema version %d is dirty", version)
	}
	return version, err
}
