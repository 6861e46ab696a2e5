package powercut

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// sharePostgres is for how many of SQLite's cuts a test on Postgres makes one, because each takes more time.
const sharePostgres = 10

func TestPostgres(t *testing.T) {
	cuts, seed := env.Length.Count(t, 150), env.Seed.Uint(t, rand.Uint64())
	cuts = max(1, cuts/sharePostgres)
	s, created := newPostgres(t)
	for s.report.cuts < cuts {
		l := &life{stage: s, birth: empty(created.Clone()), seed: seed}
		if n, err := l.live(min(cutsOfALife, cuts-s.report.cuts)); err != nil {
			l.fail(t, n*sharePostgres, err)
		}
		seed++
	}
	t.Log(s.report)
	s.report.enough(t, nil)
}

// postgres is a Postgres server with its data on the disk, always on the same address.
type postgres struct {
	process
	dsn string
}

// newPostgres returns the stage of two replicas over a Postgres, and its disk before the first start.
func newPostgres(t *testing.T) (*stage, *disk.Disk) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, to run Postgres so that a kill ends all of its processes at once")
	}
	dir := directory(t)
	programs, err := pgserver.FindPrograms()
	if err != nil {
		t.Fatal(err)
	}
	const startOperations = 300
	s := &stage{
		dir: filepath.Join(dir, "disk"), report: newReport(), scenarios: onPostgres, startOperations: startOperations,
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &postgres{dsn: "postgres://postgres@" + address + "/postgres?sslmode=disable"}
	p.args = []string{programs.Path("postgres"), "-D", filepath.Join(s.dir, "data")}
	for _, setting := range []string{
		"listen_addresses=" + host, "port=" + port, "unix_socket_directories=", "fsync=on", "full_page_writes=on",
		"synchronous_commit=on", "shared_buffers=4MB", "max_connections=60",
		"dynamic_shared_memory_type=sysv",                                // of its own namespace
		"min_wal_size=2MB", "max_wal_size=4MB", "checkpoint_timeout=30s", // many checkpoints and files of the log
	} {
		p.args = append(p.args, "-c", setting)
	}
	// The first process of a namespace takes all others of it along.
	p.attributes = syscall.SysProcAttr{
		Credential: programs.Credential, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
	}
	t.Cleanup(p.kill)
	s.database = p
	for _, name := range []string{"first", "second"} {
		s.servers = append(s.servers, newServer(t, "--name", name, "--datastore", p.dsn))
	}
	return s, initialized(t, programs)
}

// initialized returns a disk with the data directory of a new cluster.
func initialized(t *testing.T, programs pgserver.Programs) *disk.Disk {
	t.Helper()
	dir := directory(t)
	if _, err := programs.Create(dir); err != nil {
		t.Fatal(err)
	}
	d := disk.New()
	// Postgres relies on it: a checkpoint syncs the file of a new table, but not its directory.
	d.Journaled = true
	if err := d.Import(dir); err != nil {
		t.Fatal(err)
	}
	return d
}

// ready waits until Postgres has recovered and accepts connections.
func (p *postgres) ready(down <-chan struct{}) error {
	return p.await(down, func(ctx context.Context) error { return pgserver.Accepts(ctx, p.dsn) })
}

func (p *postgres) checkpoint(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return errors.Join(err, conn.Close(ctx))
}
