package upgrade

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/test/cluster/audit"
	"github.com/sqlstore/sqlstore/test/cluster/history"
	"github.com/sqlstore/sqlstore/test/cluster/load"
	"github.com/sqlstore/sqlstore/test/support/launch"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// warm is how many writes of each replica's clients must be acknowledged in each step of an upgrade.
const warm = 50

func TestRollingUpgrade(t *testing.T) {
	for _, o := range versions {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel() // it waits most of its time, for the checksums
			roll(t, o)
		})
	}
}

// roll upgrades from an old replica to a new one, and from that to another, under load.
func roll(t *testing.T, o *old) {
	u := newUpgrade(t)
	first := u.begin(o.serve(t))
	u.flows()
	u.succeeds(t, fmt.Sprintf("version %d of ", o.postgres), "schema", "status")

	second := u.start("new", nil)
	u.succeeds(t, "(up to date)", "schema", "status")
	u.join(second)
	u.flows()
	// The machine of an old replica may restart meanwhile: the replica then finds the new schema.
	u.restart(first)
	u.flows()
	beside := u.count("SELECT count(*) FROM object_versions AS v, checksums AS x WHERE v.resource_version > x.since " +
		"AND v.written_at IS NULL")
	if beside == 0 {
		t.Error("the old replica wrote nothing after the migration, so that this test proves nothing")
	}
	u.stop(first)
	since := u.count("SELECT max(resource_version) FROM object_versions")
	u.flows()

	third := u.start("newer", nil)
	u.join(third)
	u.flows()
	u.stop(second)
	u.flows()
	u.run.Stop()

	to := u.verify()
	u.run.StopWatches()
	u.awaitNoBareRows()
	u.awaitChecksums(t)
	timeless := u.count("SELECT count(*) FROM object_versions WHERE written_at IS NULL AND resource_version > $1",
		since)
	if timeless > 0 || since >= to {
		t.Errorf("%d rows after revision %d, up to %d, have no commit time", timeless, since, to)
	}
	t.Logf("the old replica wrote %d rows after the migration, and stopped at revision %d of %d", beside, since, to)
}

// upgrade is a Postgres database whose replicas are replaced under load.
type upgrade struct {
	*testing.T
	database
	db   *pgx.Conn
	run  *load.Run
	ends []end
}

// replica is one server.
type replica struct {
	name   string
	server *launch.Server
}

// end is the time from the signal that stops a replica until it serves again or its clients use others.
type end struct {
	name     string
	from, to time.Duration
}

func newUpgrade(t *testing.T) *upgrade {
	t.Helper()
	dsn := pgserver.Database(t)
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return &upgrade{T: t, database: database{"SQLSTORE_DATASTORE=" + dsn}, db: db}
}

// start starts a replica with a command, nil for the new program.
func (u *upgrade) start(name string, command []string) replica {
	u.Helper()
	cfg := launch.Config{Command: command, Args: []string{"--name", name}, Env: u.database}
	return replica{name, launch.Start(u, cfg)}
}

// begin starts the first replica and the load.
func (u *upgrade) begin(command []string) replica {
	u.Helper()
	r := u.start("old", command)
	u.run = load.Start(u, []load.Replica{{Name: r.name, Endpoint: r.server.Endpoint()}}, 1)
	return r
}

func (u *upgrade) join(r replica) {
	u.Helper()
	u.run.Join(u, load.Replica{Name: r.name, Endpoint: r.server.Endpoint()})
}

// flows waits until each replica acknowledges writes to its clients.
func (u *upgrade) flows() {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), stepTimeout)
	defer cancel()
	if err := u.run.WaitWrites(ctx, warm); err != nil {
		u.Fatal(err)
	}
}

// stop stops a replica for good.
func (u *upgrade) stop(r replica) {
	u.Helper()
	u.without(r, func() { u.run.Leave(r.name) })
}

// restart stops a replica and starts it again.
func (u *upgrade) restart(r replica) {
	u.Helper()
	u.without(r, func() { r.server.Restart(u) })
}

// without stops a replica, calls then, and notes that requests to the replica may fail meanwhile.
func (u *upgrade) without(r replica, then func()) {
	u.Helper()
	e := end{name: r.name, from: u.run.Journal.Now()}
	if err := r.server.Stop(); err != nil {
		u.Errorf("stop %s: %v", r.name, err)
	}
	then()
	e.to = u.run.Journal.Now()
	u.ends = append(u.ends, e)
}

// verify checks what clients saw, and that no request failed but those to replicas that were stopping.
func (u *upgrade) verify() int64 {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 2*stepTimeout)
	defer cancel()
	a := audit.Audit{
		Run: u.run, From: u.run.From, Recorded: history.NewRecorded(u.run.From),
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, u.db.Config()) },
	}
	for _, r := range u.run.Members() {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Endpoint}, Logger: zap.NewNop()})
		if err != nil {
			u.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		a.Replicas = append(a.Replicas, c)
	}
	checked, err := a.Check(ctx)
	if err != nil {
		u.Error(err)
	}
	u.Logf("%v", checked)
	failures := u.run.Failures()
	for _, f := range failures {
		if !u.excused(f) {
			u.Errorf("a request failed, but its replica was not stopping: %+v", f)
			continue
		}
		u.Logf("a request failed while its replica was stopping: %s", f.Text)
	}
	return checked.To
}

// excused reports whether a request may have been sent to a replica that was stopping.
func (u *upgrade) excused(f load.Failure) bool {
	for _, e := range u.ends {
		if (f.Replica == "" || f.Replica == e.name) && f.End >= e.from && f.Start <= e.to {
			return true
		}
	}
	return false
}

// awaitNoBareRows waits until all rows have checksums. A replica looks once a minute for rows without.
func (u *upgrade) awaitNoBareRows() {
	u.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		bare := u.count("SELECT count(*) FROM object_versions WHERE checksum IS NULL")
		if bare == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			u.Fatalf("%d rows still lack their checksums", bare)
		}
	}
}

func (u *upgrade) count(query string, args ...any) (n int64) {
	u.Helper()
	if err := u.db.QueryRow(u.Context(), query, args...).Scan(&n); err != nil {
		u.Fatal(err)
	}
	return n
}
