package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Reclaim implements [backend.Backend]. Postgres returns space by itself where it can, and reuses the rest.
func (b *Backend) Reclaim(ctx context.Context, _ int) (done bool, took time.Duration, err error) {
	return true, 0, b.usable(ctx)
}

// Defragment implements [backend.Backend]. It makes the space of removed rows reusable. Only VACUUM FULL would return
// it to the operating system, but it blocks everybody while it copies the table.
func (b *Backend) Defragment(ctx context.Context) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	for _, sql := range []string{"VACUUM object_versions", "ANALYZE object_versions"} {
		if err := b.maintain(ctx, sql); err != nil {
			return b.translate(ctx, "defragment", err)
		}
	}
	return nil
}

// unboundSession removes the statement timeout of one of our sessions, and makes the server send its warnings.
const unboundSession = "SELECT set_config('statement_timeout', '0', false), " +
	"set_config('client_min_messages', 'warning', false)"

// maintain runs a statement that may take long, outside any transaction.
func (b *Backend) maintain(ctx context.Context, sql string) error {
	c, err := b.reads.acquire(ctx)
	if err != nil {
		return err
	}
	known := linkOf(c.Conn())
	if known.direct {
		_, err = c.Exec(ctx, unboundSession)
	}
	known.warning.Store(nil)
	if err == nil {
		_, err = c.Exec(ctx, sql)
	}
	w := known.warning.Load()
	if known.direct { // the next statement gets a new session, which has the timeout
		closeConn(c.Conn())
	}
	b.reads.release(c, err)
	if err != nil {
		return err
	}
	if w != nil {
		b.log.Warn("the database server did not do what it was asked to", "statement", sql, "warning", w.Message)
	}
	return nil
}

// emptySize is the space that a database without rows takes, in bytes: a page for each index.
const emptySize = 4 * 8192

const readSize = "SELECT (SELECT sum(pg_relation_size(r.oid)) FROM (" +
	"SELECT c.oid FROM pg_class AS c WHERE c.oid IN (t.oid, t.reltoastrelid) UNION ALL " +
	"SELECT i.indexrelid FROM pg_index AS i WHERE i.indrelid IN (t.oid, t.reltoastrelid)) AS r)::bigint, " +
	"c.bytes - (SELECT p.bytes FROM purge AS p WHERE p.id = 1)" +
	fromClock + ", pg_class AS t WHERE t.oid = 'object_versions'::regclass"

// Size implements [backend.Backend]. InUse is counted as rows are written and removed, because Postgres does not report
// it.
func (b *Backend) Size(ctx context.Context) (size backend.Size, err error) {
	clock, progress := false, false // are there
	reset := func() { size, clock, progress = backend.Size{}, false, false }
	err = b.laneFor(ctx).query(ctx, "read the size", reset, func(s *scanner) error {
		size.Total, size.Reads = s.integer(), int(b.reading.Load())-1
		clock, progress = true, !s.null()
		size.InUse = s.integer() + emptySize
		return nil
	}, readSize)
	switch {
	case err != nil:
		return backend.Size{}, err
	case !clock:
		return backend.Size{}, backend.ErrNoClock
	case !progress:
		return backend.Size{}, errNoPurge
	}
	size.Total = max(size.Total, size.InUse)
	return size, nil
}

// The planner learns the size of a table when the table is analyzed. Autovacuum does that once a minute at best, and a
// cached plan that was made for an empty table reads all of a table that has grown since. So the table is analyzed here
// whenever it has doubled, until it is so large that plans stay as they are.
const (
	analyzeFirst = 256
	analyzeLast  = 1 << 17
	analyzeBound = 30 * time.Second
)

// grown is called after each commit, with its revision. It analyzes the table in the background if it has doubled.
func (b *Backend) grown(revision int64) {
	last := b.analyzed.Load()
	if last >= analyzeLast || revision < 2*last || b.closed() ||
		!b.analyzed.CompareAndSwap(last, max(revision, analyzeFirst)) {
		return
	}
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), analyzeBound)
		defer cancel()
		if err := b.maintain(ctx, "ANALYZE object_versions"); err != nil && !b.closed() {
			b.log.Warn("cannot update the planner's statistics of a table that has grown", "error",
				fmt.Errorf("analyze: %w", err))
		}
	})
}
