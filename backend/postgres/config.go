package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/backend"
)

// defaultMaxConns is enough for the writer, the listener and the reads that a few cores can have under way.
const defaultMaxConns = 16

// minConns are one for the writer, one for the listener, one for the other control statements and one to read.
const minConns = 4

// maxControlConns are one for the writer, one for heartbeats, one for questions about the clock, one for leases and one
// for hints.
const maxControlConns = 5

// Config says which database is used and how.
type Config struct {
	// DSN is a postgres:// URL or keyword/value string as pgx reads it: several hosts, target_session_attrs, TLS
	// parameters, pool_max_conns, default_query_exec_mode. What it leaves out comes from libpq's environment variables.
	DSN string
	// PasswordFile holds the password and nothing else. It is read anew for every connection and wins over the DSN's.
	PasswordFile string
	// MaxConns bounds all connections of this Backend; 0 takes pool_max_conns of the DSN, else 16. At least 4 are used.
	// One is the listener's; up to 5 are for control statements (writes, heartbeats, the clock, leases, hints); the
	// others read, which with less than 6 is one. With 4 a batch that has to read while a read hangs and a renewal
	// waits for its lease may fail.
	MaxConns int
	// UnsafeNoFsync accepts a server with fsync, full_page_writes or synchronous_commit off: a crash of it may lose or
	// damage what was acknowledged.
	UnsafeNoFsync bool
	// Logger takes warnings and errors, nil for slog's default.
	Logger *slog.Logger
}

// Open connects, migrates the schema where needed and checks that the server keeps what it acknowledges. It tries once;
// waiting for a server that is not up yet is the caller's.
//
// Errors: [backend.ErrUnavailable], [schema.ErrNewer], [schema.ErrDirty], [ErrUnsuitable], [ErrDSN].
func Open(ctx context.Context, cfg Config) (*Backend, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		b.closePools()
		if errors.Is(err, errStandby) && !severalHosts(b.dsn) { // else the one that is promoted is waited for
			err = fmt.Errorf("%w: %w; name all servers in the DSN", ErrUnsuitable, errStandby)
		}
		return nil, fmt.Errorf("open database %s: %w", Redact(cfg.DSN), err)
	}
	return b, nil
}

// severalHosts says whether the DSN names more than one server.
func severalHosts(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != c.Host || f.Port != c.Port
	})
}

// newBackend makes a Backend that has not connected yet.
func newBackend(cfg Config) (*Backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		cfg: cfg, log: cfg.Logger, dsn: pc.ConnConfig, turn: make(chan struct{}, 1), closing: make(chan struct{}),
		commitTimeout: commitTimeout,
	}
	b.servers.log, b.anySession = cfg.Logger, namesSession(cfg.DSN)
	pc.PrepareConn = b.current
	pc.BeforeConnect, pc.AfterConnect = b.prepareCancelling, b.greet
	control := pc.Copy()
	// The writer has one, a renewal may wait for it with another one, and it may have to read with a third.
	control.MaxConns = min(maxControlConns, pc.MaxConns-1, pc.MaxConns/2+1)
	control.MinConns, control.MinIdleConns = 0, 0
	pc.MaxConns -= control.MaxConns
	pc.MinConns, pc.MinIdleConns = min(pc.MinConns, pc.MaxConns), min(pc.MinIdleConns, pc.MaxConns)
	if b.control, err = newLane(b, control); err != nil {
		return nil, err
	}
	if b.reads, err = newLane(b, pc); err != nil {
		b.control.pool.Close()
		return nil, err
	}
	return b, nil
}

func newLane(b *Backend, pc *pgxpool.Config) (lane, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return lane{}, fmt.Errorf("%w: %w", ErrDSN, err)
	}
	return lane{b: b, pool: pool}, nil
}

// poolConfig reads the DSN.
func poolConfig(cfg Config) (*pgxpool.Config, error) {
	// The pool's reader fills in a number of its own for one that is not given.
	given, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, dsnError(cfg.DSN, err)
	}
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, dsnError(cfg.DSN, err)
	}
	total := cfg.MaxConns
	if _, ok := given.RuntimeParams["pool_max_conns"]; total <= 0 && ok {
		total = int(pc.MaxConns)
	}
	if total <= 0 {
		total = defaultMaxConns
	}
	pc.MaxConns = int32(max(total, minConns) - 1) // one is the listener's
	// A connection that broke while it was idle is found by the read that fails on it, which is tried again.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "sqlstore"
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = connectTimeout
	}
	return pc, nil
}

// dsnError says what is wrong with a DSN without showing it: pgx's own message may quote parts of it.
func dsnError(dsn string, err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%w: %s: %w", ErrDSN, Redact(dsn), file)
	}
	return fmt.Errorf("%w: %s: write postgres://user@host:5432/database?sslmode=verify-full, escape what is special "+
		"in it as %%XX, and see https://www.postgresql.org/docs/current/libpq-connect.html for the "+
		"parameters", ErrDSN, Redact(dsn))
}

// WithDatabase hands the database to f without migrating or checking it, for looking at its schema and changing it.
func WithDatabase(ctx context.Context, cfg Config, f func(ctx context.Context, db *sql.DB) error) error {
	b, err := newBackend(cfg)
	if err != nil {
		return err
	}
	b.unbounded = true // a migration, or a count of everything, takes its time
	defer b.closePools()
	db := stdlib.OpenDBFromPool(b.reads.pool)
	return errors.Join(f(ctx, db), db.Close())
}

var (
	_ backend.Shared     = (*Backend)(nil)
	_ backend.Pooled     = (*Backend)(nil)
	_ backend.Durability = (*Backend)(nil)
)
