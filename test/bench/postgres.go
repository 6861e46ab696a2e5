package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is one target's own Postgres server, with default settings except fsync, and a database on it. It is
// measured and stopped with all its processes.
type postgres struct {
	tree
	dsn    string // of the target's database
	from   string // where the server comes from
	remove func() error
}

// postgresTimeout limits the start of a server and each statement.
const postgresTimeout = time.Minute

// newPostgres starts a server from the machine's binaries, on data in dir, or in a container if there are none.
func newPostgres(dir string) (_ *postgres, err error) {
	p, err := localPostgres(dir)
	if errors.Is(err, errNoBinaries) {
		var inner error
		if p, inner = containerPostgres(); inner != nil {
			return nil, fmt.Errorf("no Postgres to measure: install its server (Debian: 'apt-get install "+
				"postgresql') or start Docker: %w", errors.Join(err, inner))
		}
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	defer func() {
		if err != nil {
			_ = p.remove()
		}
	}()
	name := "bench_" + strings.ToLower(rand.Text()[:12])
	if err := p.await(); err != nil {
		return nil, err
	}
	if err := p.execute("CREATE DATABASE " + name + " TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"); err != nil {
		return nil, err
	}
	u, err := url.Parse(p.dsn)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	p.dsn = u.String()
	// Wherever the server's process runs, it is the parent of one whose title names the database that it serves.
	return p, p.with(func(context.Context, *pgx.Conn) (err error) {
		p.tree, err = parentOf(name)
		return err
	})
}

// await waits until the server accepts connections.
func (p *postgres) await() error {
	for end := time.Now().Add(postgresTimeout); ; {
		err := p.with(func(context.Context, *pgx.Conn) error { return nil })
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// parentOf finds the parent of the Postgres process that serves a database.
func parentOf(database string) (tree, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		title, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(title), "postgres: ") || !strings.Contains(string(title),
			" "+database+" ") {
			continue
		}
		f, err := statOf(filepath.Join(filepath.Dir(file), "stat"))
		if err != nil || len(f) < 2 {
			continue
		}
		parent, err := strconv.Atoi(f[1])
		return tree(parent), err
	}
	return 0, errors.New("none of this machine's processes serves the database: its CPU cannot be measured")
}

// with calls f with a new connection.
func (p *postgres) with(f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), postgresTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return f(ctx, conn)
}

func (p *postgres) execute(statements ...string) error {
	return p.with(func(ctx context.Context, conn *pgx.Conn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// setDurable turns fsync on or off and checks all settings that make a commit durable.
func (p *postgres) setDurable(on bool) error {
	fsync := map[bool]string{true: "on", false: "off"}[on]
	if err := p.execute("ALTER SYSTEM SET fsync = "+fsync, "SELECT pg_reload_conf()", "CHECKPOINT"); err != nil {
		return err
	}
	if on {
		syscall.Sync() // what was written before
	}
	want := map[string]string{"fsync": fsync, "synchronous_commit": "on", "full_page_writes": "on"}
	return p.with(func(ctx context.Context, conn *pgx.Conn) error {
		for end := time.Now().Add(postgresTimeout); ; {
			wrong := ""
			for name, value := range want {
				var is string
				if err := conn.QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = $1",
					name).Scan(&is); err != nil {
					return err
				}
				if is != value {
					wrong = fmt.Sprintf("Postgres has %s = %s, not %s", name, is, value)
				}
			}
			if wrong == "" {
				return nil
			}
			if time.Now().After(end) {
				return errors.New(wrong)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
