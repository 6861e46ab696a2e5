package schema_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/schema"
	"github.com/sqlstore/sqlstore/sqlstoretest"
)

// stepTimeout limits each wait; tests share slow machines.
const stepTimeout = time.Minute

// TestPostgresReplicasOfTwoVersions migrates the database under an old replica, which writes meanwhile and serves on
// beside the new one. A program of the old version starts on the new schema until that names a newer oldest program.
func TestPostgresReplicasOfTwoVersions(t *testing.T) {
	cfg := sqlstore.Config{Datastore: pgserver.Database(t), Logger: slog.New(slog.DiscardHandler)}
	r := &replicas{T: t, cfg: cfg}
	old := r.start()
	r.writes(old, 20)
	stopped, writing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-writing:
				return
			default:
				r.write(old)
			}
		}
	}()
	older := schema.BecomeNewer(t)
	second := r.start()
	close(writing)
	<-stopped
	r.wantVersion(2)
	for _, c := range []*clientv3.Client{old, second, old} {
		r.writes(c, 20)
	}
	r.sees(old)
	r.sees(second)

	older()
	third := r.start() // an old program restarts
	r.writes(third, 20)
	r.writes(second, 20)
	r.sees(third)
	r.execute("UPDATE settings SET value = 2 WHERE name = 'oldest_program'")
	if s, err := sqlstore.Start(t.Context(), cfg); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("an old program on a schema that does not serve it: %v", errors.Join(err, stop(s)))
	}
	if v, err := postgres.OpenView(t.Context(), postgres.Config{DSN: cfg.Datastore}); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("a view by an old program: %v, %v", v, err)
	}
	schema.BecomeNewer(t)
	r.sees(r.start())
}

// TestSQLiteOfTwoVersions migrates a file: the old program then refuses it, and the new one has everything.
func TestSQLiteOfTwoVersions(t *testing.T) {
	dir := t.TempDir()
	cfg := sqlstore.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)}
	r := &replicas{T: t, cfg: cfg}
	server := sqlstoretest.Start(t, func(c *sqlstore.Config) { *c = cfg })
	r.writes(r.connect(server), 20)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	older := schema.BecomeNewer(t)
	file := filepath.Join(dir, "sqlstore.db")
	if v, err := sqlite.OpenView(t.Context(), file); !errors.Is(err, sqlite.ErrOldSchema) {
		t.Errorf("a view of an old file: %v, %v", v, err)
	}
	server = sqlstoretest.Start(t, func(c *sqlstore.Config) { *c = cfg })
	client := r.connect(server)
	r.sees(client)
	r.writes(client, 20)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	older()
	if s, err := sqlstore.Start(t.Context(), cfg); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("an old program on a new file: %v", errors.Join(err, stop(s)))
	}
	schema.BecomeNewer(t)
	r.sees(r.start())
}

// A view does not migrate, so it refuses an old schema.
func TestPostgresViewOfOldSchema(t *testing.T) {
	cfg := sqlstore.Config{Datastore: pgserver.Database(t)}
	if err := cfg.WithDatabase(t.Context(), func(ctx context.Context, db *sql.DB) error {
		return schema.Up(ctx, db, nil)
	}); err != nil {
		t.Fatal(err)
	}
	schema.BecomeNewer(t)
	v, err := postgres.OpenView(t.Context(), postgres.Config{DSN: cfg.Datastore})
	if !errors.Is(err, postgres.ErrOldSchema) {
		t.Errorf("%v, %v", v, err)
	}
}

func stop(s *sqlstore.Server) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

// replicas are the servers of one database, and what was written through them.
type replicas struct {
	*testing.T
	cfg     sqlstore.Config
	written int
}

// start starts a replica and returns a client of it.
func (r *replicas) start() *clientv3.Client {
	r.Helper()
	return r.connect(sqlstoretest.Start(r, func(c *sqlstore.Config) { *c = r.cfg }))
}

func (r *replicas) connect(s *sqlstore.Server) *clientv3.Client {
	r.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: nil})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// write creates the next key, which no replica may have. Only one goroutine at a time may call it.
func (r *replicas) write(c *clientv3.Client) {
	ctx, cancel := context.WithTimeout(r.Context(), stepTimeout)
	defer cancel()
	key := fmt.Sprintf("k%06d", r.written)
	res, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "v")).Commit()
	if err != nil || !res.Succeeded {
		r.Errorf("write %s: %+v, %v", key, res, err)
	}
	r.written++
}

func (r *replicas) writes(c *clientv3.Client, n int) {
	for range n {
		r.write(c)
	}
}

// sees reads all keys, and watches them from the first revision.
func (r *replicas) sees(c *clientv3.Client) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), stepTimeout)
	defer cancel()
	got, err := c.Get(ctx, "k", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != r.written {
		r.Errorf("%d keys of %d, %v", len(got.Kvs), r.written, err)
	}
	events := 0
	for w := range c.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := w.Err(); err != nil {
			r.Fatal(err)
		}
		if events += len(w.Events); events >= r.written {
			break
		}
	}
	if events != r.written {
		r.Errorf("%d events of %d", events, r.written)
	}
}

func (r *replicas) wantVersion(want uint) {
	r.Helper()
	r.database(func(ctx context.Context, db *sql.DB) error {
		st, err := schema.Status(ctx, db)
		if err == nil && st.Version != want {
			err = fmt.Errorf("the schema is at %+v, want version %d", st, want)
		}
		return err
	})
}

func (r *replicas) execute(query string) {
	r.Helper()
	r.database(func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, query)
		return err
	})
}

func (r *replicas) database(f func(context.Context, *sql.DB) error) {
	r.Helper()
	if err := r.cfg.WithDatabase(r.Context(), f); err != nil {
		r.Fatal(err)
	}
}
