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
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
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

// undetectedOnPostgres reports whether docs/damage.md lists a flip as not detected on a server without page
// checksums: it is in what describes rows, or in another table.
func undetectedOnPostgres(f *flip, _ bool) bool { return f.structure || !f.file.objects }

// postgres is a server without page checksums, run from the machine's binaries.
type postgres struct {
	data, dsn string
	programs  pgserver.Programs
	args      []string
	process   *os.Process
	life      context.Context // ends with the current run; nil if it does not run
}

func newPostgres(t *testing.T, dir string) *postgres {
	t.Helper()
	programs, err := pgserver.FindPrograms()
	if err != nil {
		t.Fatal(err)
	}
	data, err := programs.Create(dir)
	if err != nil {
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
	p := &postgres{
		data: data, dsn: "postgres://postgres@" + address + "/postgres?sslmode=disable", programs: programs,
		args: []string{
			"-D", data, "-c", "listen_addresses=" + host, "-c", "port=" + port, "-c", "unix_socket_directories=",
			"-c", "shared_buffers=16MB",
		},
	}
	t.Cleanup(func() {
		if err := p.down(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// up starts the server and waits until it accepts connections.
func (p *postgres) up() error {
	cmd := exec.Command(p.programs.Path("postgres"), p.args...)
	cmd.Dir, cmd.Env = filepath.Dir(p.data), append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.programs.Credential, Pdeathsig: syscall.SIGQUIT}
	if err := cmd.Start(); err != nil {
		return err
	}
	life, end := context.WithCancel(context.Background())
	p.process, p.life = cmd.Process, life
	go func() {
		_ = cmd.Wait()
		end()
	}()
	ctx, cancel := context.WithTimeout(life, upTimeout)
	defer cancel()
	err := pgserver.Accepts(ctx, p.dsn)
	if life.Err() != nil {
		err = errors.Join(errors.New("postgres has ended"), err)
	}
	return err
}

// down stops the server, fast but with nothing left to recover.
func (p *postgres) down() error {
	if p.life == nil {
		return nil
	}
	// A search in a damaged index may never end; only the second signal ends that.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		_ = p.process.Signal(sig)
		select {
		case <-p.life.Done():
			p.life = nil
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
