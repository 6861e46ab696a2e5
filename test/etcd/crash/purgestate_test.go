package crash

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// awaitUnderWay is await that returns while there is more left to delete.
func (p *purge) awaitUnderWay(t *testing.T, through int64) *launch.Server {
	t.Helper()
	s := p.await(t, through)
	if p.through >= p.compacted {
		t.Fatal("everything is deleted already: too few rows to mean anything")
	}
	t.Logf("%d rows are there, done through revision %d of %d", p.rows(t), p.through, p.compacted)
	return s
}

// await waits until a replica reports that deletion has reached a revision, and returns it.
func (p *purge) await(t *testing.T, through int64) *launch.Server {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	for {
		for _, s := range p.replicas {
			got, ok := gauge(t, s, "purged_revision")
			if ok && got < p.through {
				t.Fatalf("deletion is back at revision %d after %d", got, p.through)
			}
			if got > p.through {
				p.through = got
				end.Reset(time.Minute) // it makes progress, however slowly
			}
			if ok && got >= through {
				return s
			}
		}
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("deletion is stuck at revision %d, want %d", p.through, through)
		}
	}
}

// gauge reads one of the metrics about compaction; some exist only where rows are deleted.
func gauge(t *testing.T, s *launch.Server, name string) (int64, bool) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^sqlstore_compaction_` + name + ` (\d+)$`).FindStringSubmatch(get(t, s,
		"/metrics"))
	if found == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n, true
}

// rows counts the rows of all versions.
func (p *purge) rows(t *testing.T) (n int) {
	t.Helper()
	driver, dsn := "sqlite3", "file:"+filepath.Join(p.replicas[0].DataDir(), "sqlstore.db")+"?mode=ro"
	if p.Postgres {
		driver, dsn = "pgx", p.DSN
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM object_versions").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// size is the disk space of the database; for Postgres, which reuses space, the space in use.
func (p *purge) size(t *testing.T) int64 {
	t.Helper()
	r, err := pb.NewMaintenanceClient(dial(t, p.replicas[0].Endpoint())).Status(t.Context(), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Postgres {
		return r.DbSizeInUse
	}
	return r.DbSize
}

func (p *purge) awaitSize(t *testing.T, most int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); p.size(t) > most; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the database takes %d bytes, want %d at most", p.size(t), most)
		}
	}
}
