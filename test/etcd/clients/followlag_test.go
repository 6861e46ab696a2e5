package clients

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	_ "github.com/mattn/go-sqlite3"    // the driver
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// TestFollowLag logs how long after the acknowledgement by etcd a write can be seen in the database that follows it:
// 200 writes a second of 1 KiB. It looks every millisecond.
func TestFollowLag(t *testing.T) {
	const writes, every = 2000, 5 * time.Millisecond
	etcd := servers.Etcd(t)
	source := connect(t, etcd)
	for name, target := range importTargets(t) {
		s := startProgram(t, launch.Binary(t), "import", "--follow", "--from", etcd.ClientURL(), "--work-dir",
			t.TempDir(), target)
		for !strings.HasPrefix(s.line(), "following from revision") {
		}
		acknowledged, last := make(map[int64]time.Time, writes), make(chan int64, 1)
		var writer sync.WaitGroup
		writer.Go(func() {
			defer close(last)
			next := time.NewTicker(every)
			defer next.Stop()
			value := []byte(strings.Repeat("v", 1024))
			for i := range writes {
				<-next.C
				key := fmt.Append(nil, "lag/", i%100)
				put, err := source.kv.Put(t.Context(), &pb.PutRequest{Key: key, Value: value})
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged[put.Header.Revision] = time.Now()
				if i == writes-1 {
					last <- put.Header.Revision
				}
			}
		})
		seen := watchRevision(t, target, last)
		writer.Wait()
		var lags []time.Duration
		for revision, at := range acknowledged {
			i, _ := slices.BinarySearchFunc(seen, revision, func(s sight, r int64) int { return int(s.revision - r) })
			lags = append(lags, max(seen[i].at.Sub(at), 0))
		}
		slices.Sort(lags)
		t.Logf("%s: %d writes, lag: median %v, p99 %v, maximum %v", name, len(lags), lags[len(lags)/2],
			lags[len(lags)*99/100], lags[len(lags)-1])
		s.interrupt()
		s.ended()
	}
}

// openTarget opens the database that a flag names, to read it.
func openTarget(t *testing.T, flag string) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", strings.TrimPrefix(flag, "--datastore=")
	if dir, ok := strings.CutPrefix(flag, "--data-dir="); ok {
		driver, dsn = "sqlite3", "file:"+filepath.Join(dir, "sqlstore.db")+"?mode=ro"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// sight is when a revision was first seen in a database.
type sight struct {
	revision int64
	at       time.Time
}

// watchRevision reads the revision of a database until it has reached the last one.
func watchRevision(t *testing.T, target string, last <-chan int64) (seen []sight) {
	t.Helper()
	db := openTarget(t, target)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), importTimeout)
	defer cancel()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	var end int64
	for end == 0 || seen[len(seen)-1].revision < end {
		select {
		case revision, ok := <-last:
			if end, last = revision, nil; !ok {
				t.Fatal("the writes have failed")
			}
		case <-look.C:
		}
		var s sight
		if err := db.QueryRowContext(ctx, "SELECT max(revision) FROM clock").Scan(&s.revision); err != nil {
			t.Fatal(errors.Join(err, ctx.Err()))
		}
		if s.at = time.Now(); len(seen) == 0 || seen[len(seen)-1].revision != s.revision {
			seen = append(seen, s)
		}
	}
	return seen
}
