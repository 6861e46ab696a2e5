package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// home is where the database is: its server's system and timeline, and the table clock. The settings have the home in
// which a store last started. A promotion and a restore from a base backup begin a new timeline; a dump makes the table
// again.
type home struct{ system, timeline, table int64 }

// The settings that hold a home.
var homeNames = []string{"home_system", "home_timeline", "home_table"}

func (h home) values() []int64 { return []int64{h.system, h.timeline, h.table} }

// targets are the settings that stop a server's recovery at some point. They stay set after a restore to that point.
const targets = "SELECT COALESCE(string_agg(name || ' = ''' || setting || '''', ', ' ORDER BY name), '') " +
	"FROM pg_settings WHERE setting <> '' AND name IN ('recovery_target', 'recovery_target_lsn', " +
	"'recovery_target_name', 'recovery_target_time', 'recovery_target_xid')"

// readHomes are tried in turn. The second one leaves out what an ordinary user may not see.
var readHomes = []string{
	"SELECT (SELECT system_identifier FROM pg_control_system()), " + timelineOf +
		", 'clock'::regclass::oid::bigint, (" + targets + "), " + knownHome,
	"SELECT 0::bigint, " + timelineOf + ", 'clock'::regclass::oid::bigint, (" + targets + "), " + knownHome,
}

// knownHome are the columns of the home in the settings, and whether the database holds a store already.
const knownHome = "(SELECT COALESCE(max(value), 0) FROM settings WHERE name = 'home_system'), " +
	"(SELECT COALESCE(max(value), 0) FROM settings WHERE name = 'home_timeline'), " +
	"(SELECT COALESCE(max(value), 0) FROM settings WHERE name = 'home_table'), " +
	"EXISTS (SELECT FROM settings WHERE name = 'cluster_id')"

// checkHome finds out whether the database was restored since a store last started on it. It comes before the store's
// identity is made, which tells a new database from one whose home was not known so far.
func (b *Backend) checkHome(ctx context.Context) error {
	var known home
	var target string
	var err error
	used := false
	for _, sql := range readHomes {
		err = b.reads.query(ctx, "read where the database is", nil, func(s *scanner) error {
			b.home = home{s.integer(), s.integer(), s.integer()}
			target = s.text()
			known = home{s.integer(), s.integer(), s.integer()}
			used = s.boolean()
			return nil
		}, sql)
		if !lacks(err) {
			break
		}
	}
	if lacks(err) {
		b.log.Debug("the database server does not say where the database is", "error", err)
		b.home = home{}
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case known == b.home:
		return nil
	case used && target != "":
		b.restored.Store(&backend.Restoration{Evidence: fmt.Sprintf("the Postgres server was restored with %s, and "+
			"has begun timeline %d", target, b.home.timeline)})
		return nil
	case known != home{}:
		b.log.Warn("the database has moved since a replica last started on it: by a promotion, a restore from a "+
			"backup or a dump, or an upgrade of Postgres. If it may lack commits that clients have seen, and no "+
			"replica that ran meanwhile has logged that history was lost, run 'sqlstore repair --bump-by 1000000000'",
			"timeline", b.home.timeline, "timeline-before", known.timeline, "same-tables", b.home.table == known.table,
			"same-system", b.home.system == known.system)
	}
	return b.settle(ctx)
}

// settle makes the home known.
func (b *Backend) settle(ctx context.Context) error {
	if b.home == (home{}) {
		return nil
	}
	return b.control.transaction(ctx, "note where the database is", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, changeSettings, homeNames, b.home.values())
		return err
	})
}

// Restored implements [backend.Restorable]. It knows of a restore to a point in time. A restore to the end of the
// archive looks like a promotion, and one from a dump like a move.
func (b *Backend) Restored() backend.Restoration {
	if found := b.restored.Load(); found != nil {
		return *found
	}
	return backend.Restoration{}
}

// Raised implements [backend.Restorable].
func (b *Backend) Raised(ctx context.Context) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	b.restored.Store(nil)
	return nil
}

var _ backend.Restorable = (*Backend)(nil)
