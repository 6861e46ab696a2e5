package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/schema"
)

// oldestServer is the oldest Postgres version that has everything used here.
const oldestServer = 13

// features are the capabilities of the server, as statements.
type features struct {
	// head reads the clock; tail reads what was written after a revision (indexes: with previous rows, keys only);
	// states and statesOf read the leases. They and lock return the origin.
	head             string
	tail             [2][2]string
	states, statesOf string
	// beat ends a heartbeat and returns the origin.
	beat string
	// bounds is a statement that sets the timeouts of the current transaction, and what a role may have changed.
	bounds string
	// readBounds does the same for a read through a pooler.
	readBounds string
	// lock locks the clock, reads it, and starts the timer for how long it may be held.
	lock string
	// unbound removes the timeouts that must not interrupt a COMMIT.
	unbound string
	// channel is the channel of the notifications.
	channel string
}

// transactionBounds are the timeout settings of a transaction, from its beginning to its end: a client that is
// suspended or cut off must not hold the clock for longer. The TCP settings handle a client that is cut off in the
// middle of a round trip, or does not read the answer, while the server waits for it inside a statement. The last two
// are not timeouts: they override what a role or database may have set.
var transactionBounds = []struct{ name, value string }{
	{"idle_in_transaction_session_timeout", milliseconds(silenceTimeout)},
	{"lock_timeout", milliseconds(lockedTimeout)},
	{"statement_timeout", milliseconds(lockedTimeout)},
	{"tcp_user_timeout", milliseconds(silenceTimeout)},
	{"tcp_keepalives_idle", "2"},
	{"tcp_keepalives_interval", "1"},
	{"tcp_keepalives_count", "2"},
	{"client_min_messages", "warning"}, // only a warning says that a wait for a standby was cancelled
	{"array_nulls", "on"},              // a NULL in an array that is sent as text marks a tombstone
}

// transactionTimeout is a setting that exists from Postgres 17 on. Its timer starts when it is set, so it is set after
// the lock: the wait for the lock does not count. The timer stops when the COMMIT begins.
const transactionTimeout = "transaction_timeout"

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// start prepares the database and detects the server's features.
func (b *Backend) start(ctx context.Context) error {
	if err := b.checkPooler(ctx); err != nil {
		return err
	}
	if err := b.checkServer(ctx); err != nil {
		return err
	}
	if err := b.fit(ctx); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(b.reads.pool)
	if err := errors.Join(schema.Up(ctx, db, b.log), db.Close()); err != nil {
		return b.translateMigration(ctx, err)
	}
	if err := b.checkComplete(ctx); err != nil {
		return err
	}
	if err := b.checkHome(ctx); err != nil {
		return err
	}
	return b.readSettings(ctx)
}

// translateMigration wraps the error of a migration. One that the migration itself causes is not wrapped: it would fail
// again.
func (b *Backend) translateMigration(ctx context.Context, err error) error {
	e := pgError(err)
	switch {
	case errors.Is(err, schema.ErrNewer), errors.Is(err, schema.ErrDirty), errors.Is(err, schema.ErrKine):
		return err
	case e != nil && e.Code == codeNoTable:
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	case errors.Is(err, schema.ErrLocked):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	case e == nil, !refused(err), conflict(err), timedOut(err), strings.HasPrefix(e.Code, "53"),
		strings.HasPrefix(e.Code, "57"), remedy(err) != "":
		return b.translate(ctx, "migrate the schema", err)
	}
	return err
}

// checkPooler detects a pooler in front of the server, which may assign each transaction to a different connection.
// Statements prepared on one connection would then be missing on the next, so none are prepared, unless the DSN
// specifies how to send statements.
func (b *Backend) checkPooler(ctx context.Context) error {
	given, err := pgconn.ParseConfig(b.cfg.DSN)
	if err != nil {
		return dsnError(b.cfg.DSN, err)
	}
	if given.RuntimeParams["default_query_exec_mode"] != "" {
		return nil
	}
	c, err := b.reads.pool.Acquire(ctx)
	if err != nil {
		return b.translate(ctx, "connect", err)
	}
	is := linkOf(c.Conn()).direct
	c.Release()
	if is {
		return nil
	}
	b.log.Info("a pooler stands before the database server: no prepared statements are used; default_query_exec_mode " +
		"in the DSN overrides this")
	b.pooled.Store(true)
	b.resetPools()
	return nil
}

// direct reports whether a connection leads directly to a server process. A pooler gives its clients a different
// process id.
func direct(ctx context.Context, c *pgx.Conn) (bool, error) {
	pid := int64(0)
	err := scan(ctx, c, func(s *scanner) error { pid = s.integer(); return nil }, "SELECT pg_backend_pid()",
		[]any{oneTrip(c)})
	if lacks(err) {
		return false, nil // an engine other than Postgres
	}
	return err == nil && pid == int64(c.PgConn().PID()), err
}

// oneTrip returns a mode in which a statement is one round trip, which a pooler sends to a single connection.
func oneTrip(c *pgx.Conn) pgx.QueryExecMode {
	if mode := c.Config().DefaultQueryExecMode; mode == pgx.QueryExecModeSimpleProtocol {
		return mode
	}
	return pgx.QueryExecModeExec
}

// checkServer refuses a server that is too old, is not the primary, or may lose acknowledged writes in a crash. It also
// builds the statements in b.features that depend on the server's settings.
func (b *Backend) checkServer(ctx context.Context) error {
	set := map[string]string{}
	var schemaName string
	names := []string{
		"server_version_num", "server_version", "transaction_read_only", "in_hot_standby", transactionTimeout,
	}
	names = append(names, weakSettings...)
	for _, s := range transactionBounds {
		names = append(names, s.name)
	}
	err := b.reads.query(ctx, "read the server's settings", func() { clear(set) }, func(s *scanner) error {
		set[s.text()] = s.text()
		schemaName = s.text()
		return nil
	}, "SELECT name, setting, COALESCE(current_schema()::text, '') FROM pg_settings WHERE name = ANY ($1::text[])",
		names)
	if err != nil {
		return err
	}
	var version int
	if _, err := fmt.Sscan(set["server_version_num"], &version); err == nil && version < oldestServer*10000 {
		return fmt.Errorf("%w: it is Postgres %s, %d is the oldest that does", ErrUnsuitable, set["server_version"],
			oldestServer)
	}
	if set["in_hot_standby"] == "off" && set["transaction_read_only"] == "on" {
		return fmt.Errorf("%w: %w", ErrUnsuitable, errReadOnly)
	}
	if set["in_hot_standby"] == "on" || set["transaction_read_only"] == "on" {
		return fmt.Errorf("%w: it is a standby or read-only; name all hosts in the DSN and add "+
			"target_session_attrs=read-write", ErrUnsuitable)
	}
	if schemaName == "" {
		return fmt.Errorf("%w: no schema of the search_path exists, or may be used by this user; make it with CREATE "+
			"SCHEMA, or GRANT its use", ErrUnsuitable)
	}
	for _, name := range weakSettings {
		switch {
		case set[name] != "off":
		case b.cfg.UnsafeNoFsync:
			b.log.Warn("the database server may lose acknowledged writes when it crashes", "setting", name, "value",
				"off")
		default:
			return fmt.Errorf("%w: it has %s=off and may lose acknowledged writes when it crashes; turn it on, or "+
				"accept that with %s", ErrUnsuitable, name, setting.Name("UnsafeNoFsync"))
		}
	}
	var bounds []string
	for _, s := range transactionBounds {
		if _, ok := set[s.name]; ok {
			bounds = append(bounds, fmt.Sprintf("set_config('%s', '%s', true)", s.name, s.value))
		}
	}
	b.features.bounds = "SELECT " + strings.Join(bounds, ", ")
	if _, ok := set["statement_timeout"]; ok {
		b.features.readBounds = fmt.Sprintf("SELECT set_config('statement_timeout', '%s', true)",
			milliseconds(sessionTimeout))
	}
	origin, err := b.origin(ctx)
	if err != nil {
		return err
	}
	b.features.withOrigin(origin)
	if _, ok := set[transactionTimeout]; ok {
		b.features.lock = fmt.Sprintf("SELECT l.*, set_config('%s', '%s', true) FROM (%s) AS l", transactionTimeout,
			milliseconds(lockedTimeout), b.features.lock)
	}
	b.features.unbound = "SELECT set_config('statement_timeout', '0', true)"
	return nil
}

// origin finds out how the server identifies itself.
func (b *Backend) origin(ctx context.Context) (originColumns, error) {
	columns := textOrigin
	err := b.control.query(ctx, "look at the server", nil, func(s *scanner) error {
		if _, binary := s.column(); binary {
			columns = binaryOrigin
		}
		return nil
	}, "SELECT "+textOrigin.perRow())
	if lacks(err) {
		b.log.Info("the database server does not identify itself: sqlstore cannot notice when another server takes "+
			"its place", "error", err)
		return unknownOrigin, nil
	}
	return columns, err
}

// withOrigin builds the statements that return the origin of their answers.
func (f *features) withOrigin(columns originColumns) {
	f.head = "SELECT " + clockColumns + ", c.batch, c.alarms, " + columns.perRow() + " " + ofNewestClock
	origin := columns.once()
	f.lock = "SELECT " + clockColumns + ", " + origin + ", " + commitTime + " FROM (" + newestClock +
		" FOR UPDATE) AS c"
	for prev := range 2 {
		for keysOnly := range 2 {
			f.tail[prev][keysOnly] = tailStatement(origin, prev == 1, keysOnly == 1)
		}
	}
	f.beat = holdMaintenance + " RETURNING " + origin
	f.states = fmt.Sprintf(readLeases, origin, " WHERE id >= $1::bigint ORDER BY id LIMIT $2::bigint")
	f.statesOf = fmt.Sprintf(readLeases, origin, " WHERE id = ANY ($1::bigint[])")
}

// maxRevision is the highest revision. Statements calculate with revisions, which must not overflow.
const maxRevision = 1 << 62

// readSettings reads the store's identity, creates it if it is missing, and generates this process's identity.
func (b *Backend) readSettings(ctx context.Context) error {
	cluster, err := randomID()
	if err != nil {
		return err
	}
	member, err := randomID()
	if err != nil {
		return err
	}
	b.settings.MemberID, b.settings.MaxRevision = uint64(member), maxRevision
	err = b.reads.transaction(ctx, "make the store's identity", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO settings (name, value) VALUES ('cluster_id', $1::bigint) "+
			"ON CONFLICT DO NOTHING", cluster)
		return err
	})
	if err != nil {
		return err
	}
	err = b.reads.query(ctx, "read the store's identity", nil,
		func(s *scanner) error { b.settings.ClusterID = uint64(s.integer()); return nil },
		"SELECT value FROM settings WHERE name = 'cluster_id'")
	if err != nil {
		return err
	}
	b.features.channel = fmt.Sprintf("sqlstore_%016x", b.settings.ClusterID)
	rows := int64(0)
	err = b.reads.query(ctx, "read the table's size", nil, func(s *scanner) error { rows = s.integer(); return nil },
		"SELECT reltuples::bigint FROM pg_class WHERE oid = 'object_versions'::regclass")
	b.analyzed.Store(max(rows, analyzeFirst/2))
	return err
}

// randomID returns a random positive number.
func randomID() (int64, error) {
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(raw[:])>>1 | 1), nil
}
