package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// defaultMaxConns is enough for the writer, the listener and the concurrent reads of a few cores.
const defaultMaxConns = 16

// minConns is one connection each for the writer, the listener, the other control statements and reads.
const minConns = 4

// fewReads is the number of connections for reads up to which none is reserved for those of the store's own.
const fewReads = 3

// maxControlConns is one connection each for the writer, heartbeats, reads of the clock, leases and hints.
const maxControlConns = 5

// Config is the database to use and how to use it.
type Config struct {
	// DSN is a postgres:// URL or keyword/value string in the form that pgx accepts, including several hosts,
	// target_session_attrs, TLS parameters, pool_max_conns and default_query_exec_mode. Parameters that it leaves out
	// come from libpq's environment variables.
	DSN string
	// PasswordFile is the path of a file that contains only the password. It is read for every new connection and takes
	// precedence over the DSN's password.
	PasswordFile string
	// MaxConns is the maximum number of connections of this Backend; 0 uses the DSN's pool_max_conns, or 16 if it has
	// none. Less than 4 is an error; a verification uses one more. One is the listener's; up to 5 are for control
	// statements (writes, heartbeats, the clock, leases, hints); the rest are for reads, which leaves one if there are
	// fewer than 6. With 4, a batch that has to read while a read hangs and a renewal waits for its lease may fail. A
	// server that allows fewer connections gets fewer.
	MaxConns int
	// UnsafeNoFsync accepts a server with fsync, full_page_writes or synchronous_commit off: a crash of such a server
	// may lose or damage acknowledged data.
	UnsafeNoFsync bool
	// TracerProvider receives the spans of the statements within a context that has a recorded span; nil means none.
	TracerProvider trace.TracerProvider
	// Logger receives log messages; nil means slog's default logger.
	Logger *slog.Logger
}

// Open connects, migrates the schema if needed and checks that the server keeps what it acknowledges. It tries once;
// the caller must retry if the server is not up yet.
//
// Errors: [backend.ErrUnavailable], [ErrRefused], [schema.ErrNewer], [schema.ErrDirty], [ErrIncomplete],
// [ErrUnsuitable], [ErrDSN], [ErrParameter].
func Open(ctx context.Context, cfg Config) (*Backend, error) {
	if err := checkSession(cfg.DSN); err != nil {
		return nil, err
	}
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		b.closePools()
		// With several hosts, the caller waits for one to be promoted.
		switch {
		case severalHosts(b.dsn):
		case errors.Is(err, errStandby):
			err = fmt.Errorf("%w: %w; name all servers in the DSN", ErrUnsuitable, errStandby)
		case errors.Is(err, errReadOnly):
			err = fmt.Errorf("%w: %w", ErrUnsuitable, errReadOnly)
		}
		return nil, fmt.Errorf("open database %s: %w", Redact(cfg.DSN), err)
	}
	return b, nil
}

// severalHosts reports whether the DSN names more than one server.
func severalHosts(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != c.Host || f.Port != c.Port
	})
}

// newBackend returns a Backend that has not connected yet.
func newBackend(cfg Config) (*Backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		cfg: cfg, log: cfg.Logger, dsn: pc.ConnConfig, writerLock: make(chan struct{}, 1), closing: make(chan struct{}),
		commitTimeout: commitTimeout,
	}
	b.servers.log, b.anySession = cfg.Logger, namesSession(cfg.DSN)
	pc.PrepareConn = b.current
	pc.BeforeConnect, pc.AfterConnect = b.prepareCancelling, func(ctx context.Context, c *pgx.Conn) error {
		b.opened.Add(1)
		return b.greet(ctx, c)
	}
	if b.tracer = tracing.New(cfg.TracerProvider); b.tracer != nil {
		pc.ConnConfig.Tracer = &statements{b.tracer}
	}
	b.pools = pc
	return b, b.openLanes()
}

// openLanes makes the lanes from b.pools.
func (b *Backend) openLanes() (err error) {
	control, reads := b.pools.Copy(), b.pools.Copy()
	// The writer holds one, a renewal may wait for the writer with another, and the writer may need a third one to
	// read.
	control.MaxConns = min(maxControlConns, b.pools.MaxConns-1, b.pools.MaxConns/2+1)
	control.MinConns, control.MinIdleConns = 0, 0
	reads.MaxConns -= control.MaxConns
	control.BeforeConnect, reads.BeforeConnect = b.admitControl, b.admitRead
	reads.MinConns, reads.MinIdleConns = min(reads.MinConns, reads.MaxConns), min(reads.MinIdleConns, reads.MaxConns)
	if b.control, err = newLane(b, control); err != nil {
		return err
	}
	if b.reads, err = newLane(b, reads); err != nil {
		b.control.pool.Close()
	}
	b.long = make(chan struct{}, max(1, reads.MaxConns-1))
	b.maintenance = b.long
	if reads.MaxConns > fewReads {
		b.long, b.maintenance = make(chan struct{}, reads.MaxConns-2), make(chan struct{}, 1)
	}
	return err
}

func newLane(b *Backend, pc *pgxpool.Config) (lane, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return lane{}, fmt.Errorf("%w: %w", ErrDSN, err)
	}
	return lane{
		b: b, pool: pool, returned: make(chan struct{}, pc.MaxConns), first: make(chan struct{}, 1),
	}, nil
}

// CheckDSN returns an [ErrDSN] or [ErrParameter] if [Open] cannot use the DSN, without connecting.
func CheckDSN(cfg Config) error {
	if _, err := poolConfig(cfg); err != nil {
		return err
	}
	return checkSession(cfg.DSN)
}

// Connections returns how many connections a backend may open. Errors: [ErrDSN], [ErrParameter].
func Connections(cfg Config) (int, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return 0, err
	}
	return int(pc.MaxConns) + 1, nil
}

// poolConfig parses the DSN. The listener's connection is not one of the pool's.
func poolConfig(cfg Config) (*pgxpool.Config, error) {
	// The pool's parser fills in a default if pool_max_conns is not given.
	given, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, dsnError(cfg.DSN, err)
	}
	if splitsPassword(cfg.DSN, given) {
		return nil, fmt.Errorf("%w: %s: write an @ in a user name, password or database name as %%40", ErrDSN,
			Redact(cfg.DSN))
	}
	total, err := connections(cfg.MaxConns, given.RuntimeParams)
	if err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, dsnError(cfg.DSN, err)
	}
	pc.MaxConns = int32(total - 1) // the listener has one
	// No ping: the read that fails on a connection that broke while idle detects it, and is retried.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "sqlstore"
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = connectTimeout
	}
	return pc, nil
}

// connections returns how many connections are configured. Errors: [ErrParameter].
func connections(configured int, parameters map[string]string) (int, error) {
	text, given := parameters["pool_max_conns"]
	inDSN, err := strconv.ParseInt(text, 10, 32)
	switch {
	case configured != 0 && configured < minConns:
		return 0, fmt.Errorf("%w: %s is %d: it must be at least %d", ErrParameter, setting.Name("DatastoreMaxConns"),
			configured, minConns)
	case given && (err != nil || inDSN < minConns):
		return 0, fmt.Errorf("%w: pool_max_conns in the DSN is %q: it must be at least %d", ErrParameter, text,
			minConns)
	}
	return cmp.Or(configured, int(inDSN), defaultMaxConns), nil
}

// splitsPassword reports whether pgx takes the end of a password with an @ for a part of the host's or the database's
// name, which error messages and logs show.
func splitsPassword(dsn string, parsed *pgx.ConnConfig) bool {
	names := []string{parsed.Host}
	for _, f := range parsed.Fallbacks {
		names = append(names, f.Host)
	}
	for _, n := range names {
		if strings.Contains(n, "@") && !filepath.IsAbs(n) {
			return true
		}
	}
	scheme, rest, _ := strings.Cut(dsn, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return false
	}
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	return strings.Count(authority, "@") > 1 || strings.Contains(path, "@")
}

// WithDatabase opens the database and passes it to f without migrating or checking it, so that f can inspect and change
// its schema. Errors: [ErrDSN], [ErrParameter] and those of f.
func WithDatabase(ctx context.Context, cfg Config, f func(ctx context.Context, db *sql.DB) error) error {
	b, err := newBackend(cfg)
	if err != nil {
		return err
	}
	b.unbounded = true // a migration, or a count of everything, may take long
	defer b.closePools()
	db := stdlib.OpenDBFromPool(b.reads.pool)
	return errors.Join(f(ctx, db), db.Close())
}

var (
	_ backend.Shared     = (*Backend)(nil)
	_ backend.Pooled     = (*Backend)(nil)
	_ backend.Durability = (*Backend)(nil)
)
