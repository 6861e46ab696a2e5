package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/schema"
)

// Examine says whether the server and the database suit sqlstore, and how fast they are. It writes messages to the
// server's log of transactions, which nobody reads, and no rows; it migrates nothing.
func Examine(ctx context.Context, cfg Config) []backend.Finding {
	cfg.Logger = slog.New(slog.DiscardHandler) // the findings say it
	b, err := newBackend(cfg)
	if err != nil {
		return []backend.Finding{failure("Postgres", err, "correct the DSN")}
	}
	defer b.closePools()
	e := examination{b: b}
	for _, step := range []func(context.Context) error{
		e.server, e.tables, e.privileges, e.settings, e.hindrances, e.latency,
	} {
		if err := step(ctx); err != nil {
			return append(e.findings, failure("Postgres", err, "mend this first; the rest was not examined"))
		}
	}
	return e.findings
}

func failure(subject string, err error, advice string) backend.Finding {
	return backend.Finding{Severity: backend.Failure, Subject: subject, Detail: err.Error(), Advice: advice}
}

// examination collects what Examine finds. Each step returns an error if the next ones make no sense.
type examination struct {
	b        *Backend
	findings []backend.Finding
}

func (e *examination) add(f backend.Finding) { e.findings = append(e.findings, f) }

func (e *examination) ok(subject, detail string) {
	e.add(backend.Finding{Subject: subject, Detail: detail})
}

func (e *examination) warn(subject, detail, advice string) {
	e.add(backend.Finding{Severity: backend.Warning, Subject: subject, Detail: detail, Advice: advice})
}

// row reads the one row of a query.
func (e *examination) row(ctx context.Context, doing, sql string, read func(*scanner)) error {
	return e.b.reads.query(ctx, doing, nil, func(s *scanner) error { read(s); return nil }, sql)
}

// server makes the checks of a start.
func (e *examination) server(ctx context.Context) error {
	if err := e.b.checkPooler(ctx); err != nil {
		return err
	}
	if err := e.b.checkServer(ctx); err != nil {
		return err
	}
	configured := e.b.pools.MaxConns
	if err := e.b.fit(ctx); err != nil {
		return err
	}
	if allowed := e.b.pools.MaxConns; allowed < configured {
		e.warn("connections", fmt.Sprintf("the server allows %d, and a replica may need %d", allowed+outside,
			configured+outside), "raise max_connections or the CONNECTION LIMIT, or lower "+
			setting.Name("DatastoreMaxConns")+"; other replicas need as many")
	}
	var version string
	if err := e.row(ctx, "read the version", "SELECT current_setting('server_version')", func(s *scanner) {
		version = s.text()
	}); err != nil {
		return err
	}
	how := "directly"
	if e.b.pooled.Load() {
		how = "through a pooler"
	}
	e.ok("server", fmt.Sprintf("Postgres %s, reached %s, a primary", version, how))
	return nil
}

// tables compares the schema with this program's.
func (e *examination) tables(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(e.b.reads.pool)
	st, err := schema.Status(ctx, db)
	if err := errors.Join(err, db.Close()); err != nil {
		return e.b.translate(ctx, "read the schema's version", err)
	}
	const subject = "schema"
	switch {
	case st.Dirty:
		return schema.ErrDirty
	case st.Kine:
		return schema.ErrKine
	case !st.Usable():
		return schema.ErrNewer
	case st.Version == 0:
		e.ok(subject, "the database is empty; a start makes the tables")
	case st.Version < st.Newest:
		e.ok(subject, fmt.Sprintf("version %d; a start migrates it to %d", st.Version, st.Newest))
	default:
		if err := e.b.checkComplete(ctx); errors.Is(err, ErrIncomplete) {
			return err
		}
		e.ok(subject, fmt.Sprintf("version %d", st.Version))
	}
	return nil
}

// privileges checks what the user may do. Without tables, it must be able to make them.
func (e *examination) privileges(ctx context.Context) error {
	const (
		subject = "privileges"
		query   = `SELECT current_user::text, current_schema()::text, CASE
			WHEN t.rows IS NULL AND NOT has_schema_privilege(current_schema(), 'CREATE') THEN 'CREATE'
			WHEN t.rows IS NULL THEN ''
			WHEN NOT (has_table_privilege(t.rows, 'SELECT') AND has_table_privilege(t.rows, 'INSERT') AND
				has_table_privilege(t.rows, 'DELETE') AND has_table_privilege(t.clock, 'UPDATE')) THEN 'DML'
			WHEN NOT (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = t.rows) THEN 'ownership'
			ELSE '' END
			FROM (SELECT to_regclass('object_versions')::oid AS rows, to_regclass('clock')::oid AS clock) AS t`
	)
	var user, in, lacks string
	err := e.row(ctx, "read the privileges", query, func(s *scanner) { user, in, lacks = s.text(), s.text(), s.text() })
	switch {
	case err != nil:
		return err
	case lacks == "CREATE":
		e.add(backend.Finding{
			Severity: backend.Failure, Subject: subject, Detail: user + " may not make tables in the schema " + in,
			Advice: fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s", in, user),
		})
	case lacks == "DML":
		e.add(backend.Finding{
			Severity: backend.Failure, Subject: subject, Detail: user + " may not read and write sqlstore's tables",
			Advice: fmt.Sprintf("make %s the owner of the tables, or a member of the role that is", user),
		})
	case lacks != "":
		e.warn(subject, user+" does not own sqlstore's tables and cannot migrate them",
			fmt.Sprintf("make %s the owner of the tables, or a member of the role that is", user))
	default:
		e.ok(subject, fmt.Sprintf("%s may use the schema %s", user, in))
	}
	return nil
}

// settings reports what weakens the server without stopping a start.
func (e *examination) settings(ctx context.Context) error {
	var weak, encoding, autovacuum, standbys string
	var unprotected int64
	err := e.row(ctx, "read the server's settings", "SELECT "+weakOf+", "+
		"CASE WHEN "+unprotectedPages+" THEN 1 ELSE 0 END, getdatabaseencoding()::text, "+
		"current_setting('autovacuum', true), current_setting('synchronous_standby_names', true)", func(s *scanner) {
		weak, unprotected, encoding, autovacuum, standbys = s.text(), s.integer(), s.text(), s.text(), s.text()
	})
	if err != nil {
		return err
	}
	switch {
	case weak != "":
		e.warn("durability", weak+", accepted: a crash of the server may lose acknowledged writes", "turn it on")
	case standbys != "":
		e.ok("durability", "commits are synced, and wait for the standbys "+standbys)
	default:
		e.ok("durability", "commits are synced on this server; a failover to a standby may lose the last ones")
	}
	if unprotected == 0 {
		e.ok("page checksums", "on")
	} else {
		e.warn("page checksums", "off: the server does not notice damage to its files",
			"run pg_checksums --enable on the stopped server")
	}
	if encoding == "UTF8" {
		e.ok("encoding", encoding)
	} else {
		e.warn("encoding", encoding+": the views for people show keys and values with escapes",
			"CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'")
	}
	if autovacuum == "on" {
		e.ok("autovacuum", autovacuum)
	} else {
		e.warn("autovacuum", autovacuum+": the tables grow without end", "turn it on")
	}
	return nil
}

// hindrances reports what keeps the server from removing rows, or from freeing its disk.
func (e *examination) hindrances(ctx context.Context) error {
	var age, slots int64
	var names string
	err := e.row(ctx, "read the oldest transaction", `SELECT
		(SELECT COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()),
		count(*), COALESCE(string_agg(slot_name::text, ', '), '') FROM pg_replication_slots WHERE NOT active`,
		func(s *scanner) { age, slots, names = s.integer(), s.integer(), s.text() })
	if refused(err) {
		e.warn("old transactions", err.Error(), "see that no transaction stays open for long")
		return nil
	}
	if err != nil {
		return err
	}
	if oldest := time.Duration(age) * time.Second; oldest < 5*time.Minute {
		e.ok("old transactions", fmt.Sprintf("the oldest that this user may see is %v old", oldest))
	} else {
		e.warn("old transactions", fmt.Sprintf("one began %v ago: autovacuum removes nothing newer", oldest),
			"look for it in pg_stat_activity, and end it")
	}
	if slots > 0 {
		e.warn("replication slots", names+": inactive, and the server's disk fills",
			"start their standbys, or drop them with pg_drop_replication_slot")
	}
	return nil
}
