package pitr

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// A restore of Postgres by pgBackRest serves exactly what was stored at the target. The server refuses it until the
// revision is raised, and then gives out no revision again, whether the target is a time or a name.
func TestPostgres(t *testing.T) {
	for _, kind := range []string{"time", "name"} {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t)
			c.archive(t)
			s := launch.Start(t, launch.Config{Args: []string{"--datastore", c.dsn()}})
			w := newWriter(t, s)
			w.write(200)
			c.backup(t)
			w.write(200)
			w.remember()
			target := c.mark(t, kind)
			w.goOn()
			stop(t, s)
			c.run(t, "pg_ctl", "stop", "-D", c.data)
			c.run(t, "pgbackrest", "--stanza=main", "--delta", "--type="+kind, "--target="+target,
				"--target-action=promote", "restore")
			c.run(t, "pg_ctl", "start", "-D", c.data, "-l", c.log())
			c.promoted(t)
			w.checkRestored(s, "recovery_target_"+kind, []string{"--datastore", c.dsn()})
		})
	}
}

// A restore to the end of the archive cannot be told from a promotion: it is logged, and served.
func TestPostgresEndOfArchive(t *testing.T) {
	c := newCluster(t)
	c.archive(t)
	s := launch.Start(t, launch.Config{Args: []string{"--datastore", c.dsn()}})
	w := newWriter(t, s)
	w.write(50)
	c.backup(t)
	w.write(50)
	w.remember()
	stop(t, s)
	c.run(t, "pg_ctl", "stop", "-D", c.data)
	c.run(t, "pgbackrest", "--stanza=main", "--delta", "restore")
	c.run(t, "pg_ctl", "start", "-D", c.data, "-l", c.log())
	c.promoted(t)
	s.Restart(t)
	w.connect(s)
	w.checkState(w.revision)
	checkMoved(t, s, `"same-tables":true`)
}

// A restored dump has new tables: that is logged, and served.
func TestPostgresDump(t *testing.T) {
	c := newCluster(t)
	s := launch.Start(t, launch.Config{Args: []string{"--datastore", c.dsn()}})
	w := newWriter(t, s)
	w.write(50)
	w.remember()
	dump := filepath.Join(c.dir, "repository", "dump")
	c.run(t, "pg_dump", "--format=custom", "--file="+dump, "sqlstore")
	w.goOn()
	c.run(t, "createdb", "--owner=sqlstore", "restored")
	c.run(t, "pg_restore", "--dbname=restored", dump)
	restored := strings.TrimSuffix(c.dsn(), "sqlstore") + "restored"
	s = launch.Start(t, launch.Config{Args: []string{"--datastore", restored}})
	w.connect(s)
	w.checkState(w.revision)
	checkMoved(t, s, `"same-tables":false`)
}

func checkMoved(t *testing.T, s *launch.Server, how string) {
	t.Helper()
	const line = "the database has moved since a replica last started on it"
	if log := s.Log(); !strings.Contains(log, line) || !strings.Contains(log, how) {
		t.Errorf("the log does not say that the database has moved, %s:\n%s", how, log)
	}
}

// A replica that runs on while Postgres is restored under it notices it, and serves again. Once the revision is raised,
// it gives out none again.
func TestPostgresUnderAReplica(t *testing.T) {
	c := newCluster(t)
	c.archive(t)
	database := []string{"--datastore", c.dsn()}
	s := launch.Start(t, launch.Config{Args: database})
	w := newWriter(t, s)
	w.write(50)
	c.backup(t)
	w.write(50)
	w.remember()
	target := c.mark(t, "time")
	w.goOn()
	c.run(t, "pg_ctl", "stop", "-D", c.data)
	c.run(t, "pgbackrest", "--stanza=main", "--delta", "--type=time", "--target="+target, "--target-action=promote",
		"restore")
	c.run(t, "pg_ctl", "start", "-D", c.data, "-l", c.log())
	c.promoted(t)
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(s.Log(), "HISTORY WAS LOST"); {
		if time.Now().After(end) {
			t.Fatal("the replica does not notice the restore")
		}
		_, _ = w.client.Get(t.Context(), "/k/001") // waits for the database
	}
	w.raise(database)
	w.checkRaised(s, database)
}

// backup makes a full backup, and waits for the next second: pgBackRest only takes one that ended in a second before
// the target's.
func (c *cluster) backup(t *testing.T) {
	t.Helper()
	const second = "SELECT date_trunc('second', clock_timestamp())"
	c.run(t, "pgbackrest", "--stanza=main", "backup")
	ended := c.run(t, "psql", "-Atc", second)
	for end := time.Now().Add(time.Minute); c.run(t, "psql", "-Atc", second) == ended; {
		if time.Now().After(end) {
			t.Fatal("the server's clock stands still")
		}
	}
}

// mark returns the target of a restore to the present.
func (c *cluster) mark(t *testing.T, kind string) string {
	t.Helper()
	if kind == "name" {
		c.run(t, "psql", "-c", "SELECT pg_create_restore_point('here')")
		return "here"
	}
	return c.run(t, "psql", "-Atc", "SELECT to_char(clock_timestamp(), 'YYYY-MM-DD HH24:MI:SS.USOF')")
}

// promoted waits until the server has ended its recovery.
func (c *cluster) promoted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for recovering := true; recovering; {
		conn, err := pgx.Connect(ctx, c.dsn())
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering)
			_ = conn.Close(ctx)
		}
		if ctx.Err() != nil {
			t.Fatalf("the server does not end its recovery: %v", err)
		}
	}
}
