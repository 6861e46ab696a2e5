package bitrot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/test/support/launch"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

const upTimeout, downTimeout = time.Minute, 15 * time.Second

func TestPostgres(t *testing.T) {
	_, p := newPostgresPlace(t)
	rot(t, p)
}

func newPostgresPlace(t *testing.T) (*postgres, *place) {
	t.Helper()
	dir := directory(t)
	pg := newPostgres(t, dir)
	p := &place{dir: pg.data, sound: filepath.Join(dir, "sound"), up: pg.up, down: pg.down}
	p.undetected = undetectedOnPostgres
	p.config = sqlstore.Config{
		Datastore: pg.dsn, DatastoreWait: -1, CacheBytes: 1, WatchProgressInterval: 100 * time.Millisecond,
	}
	if err := pg.up(); err != nil {
		t.Fatal(err)
	}
	p.truth = write(t, p.config, func() { pg.execute(t, "VACUUM (ANALYZE) object_versions") }, func() {})
	p.files = pg.files(t)
	if err := errors.Join(pg.down(), copyFiles(p.dir, p.sound)); err != nil {
		t.Fatal(err)
	}
	p.files = existing(p.sound, p.files)
	return pg, p
}

// undetectedOnPostgres reports whether docs/corruption.md lists a flip as not detected on a server without page
// checksums: it is in what describes rows, or in another table.
func undetectedOnPostgres(f *flip, _ bool) bool { return f.structure || !f.file.objects }

// postgres is a server without page checksums, run from the machine's binaries.
type postgres struct {
	data, dsn   string
	bin         string
	args        []string
	credentials *syscall.Credential
	ended       chan struct{} // nil if it does not run
	process     *os.Process
}

func newPostgres(t *testing.T, dir string) *postgres {
	t.Helper()
	bin, err := pgserver.Programs()
	if err != nil {
		t.Fatal(err)
	}
	user, err := launch.OtherThanRoot()
	if err != nil {
		t.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &postgres{
		data: filepath.Join(dir, "data"), dsn: "postgres://postgres@" + address + "/postgres?sslmode=disable", bin: bin,
		credentials: user,
	}
	p.args = []string{
		"-D", p.data, "-c", "listen_addresses=" + host, "-c", "port=" + port, "-c", "unix_socket_directories=",
		"-c", "shared_buffers=16MB",
	}
	initdb := p.command("initdb", "--pgdata="+p.data, "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--no-sync", "--wal-segsize=1")
	if strings.Contains(string(p.help(t)), "--no-data-checksums") {
		initdb.Args = append(initdb.Args, "--no-data-checksums")
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if err := p.down(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *postgres) help(t *testing.T) []byte {
	t.Helper()
	out, err := p.command("initdb", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *postgres) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, program), args...)
	cmd.Dir, cmd.Env = filepath.Dir(p.data), append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credentials, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// up starts the server and waits until it accepts connections.
func (p *postgres) up() error {
	cmd := p.command("postgres", p.args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.process, p.ended = cmd.Process, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ended:
			return errors.New("postgres has ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// down stops the server, fast but with nothing left to recover.
func (p *postgres) down() error {
	if p.ended == nil {
		return nil
	}
	// A search in a damaged index may never end; only the second signal ends that.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		_ = p.process.Signal(sig)
		select {
		case <-p.ended:
			p.ended = nil
			return nil
		case <-time.After(downTimeout):
		}
	}
	return errors.New("postgres does not stop")
}

func (p *postgres) execute(t *testing.T, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.dsn)
	if err == nil {
		_, err = conn.Exec(t.Context(), statement)
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// files returns the files of all tables of the database, their indexes and TOAST tables.
func (p *postgres) files(t *testing.T) (files []*file) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT CASE WHEN c.relname LIKE 'pg_toast%' THEN 'TOAST' || "+
		"CASE c.relkind WHEN 'i' THEN ' index' ELSE '' END || ' of ' || m.relname ELSE c.relname::text END, "+
		"pg_relation_filepath(c.oid), c.relkind::text FROM pg_class AS c "+
		"LEFT JOIN pg_index AS i ON i.indexrelid = c.oid "+
		"LEFT JOIN pg_class AS m ON m.reltoastrelid = COALESCE(i.indrelid, c.oid) "+
		"WHERE c.relkind IN ('r', 'i', 't') AND ('public'::regnamespace IN (c.relnamespace, m.relnamespace))")
	if err != nil {
		t.Fatal(err)
	}
	var name, path, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &path, &kind}, func() error {
		objects := strings.Contains(name, "object_versions")
		f := &file{path: path, name: name, paged: true, table: kind != "i", objects: objects}
		files = append(files, f)
		if f.objects && kind == "r" {
			files = append(files, &file{path: path + "_vm", name: name + " visibility map", objects: true})
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatal(fmt.Errorf("%d files: %w", len(files), err))
	}
	return files
}
