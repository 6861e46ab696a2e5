package postgres

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	readImport = "SELECT COALESCE(max(value) FILTER (WHERE name = 'import_source'), 0), " +
		"COALESCE(max(value) FILTER (WHERE name = 'import_gaps'), 0), " +
		"COALESCE(max(value) FILTER (WHERE name = 'import_holder'), 0) FROM settings"
	changeSettings = "INSERT INTO settings (name, value) SELECT * FROM unnest($1::text[], $2::bigint[]) " +
		"ON CONFLICT (name) DO UPDATE SET value = excluded.value"

	// pausedAt is when an import stored the remaining time of leases, NULL once it passes again. The extension of the
	// first heartbeat moves their ends by the time since then.
	pausedAt         = "(SELECT to_timestamp(value / 1000000.0) FROM settings WHERE name = 'leases_paused_at')"
	endPause         = "DELETE FROM settings WHERE name = 'leases_paused_at'"
	microsecondClock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	changeRemaining  = "UPDATE leases AS l SET expires_at = n.at, due_at = n.at FROM (SELECT id, " +
		"to_timestamp($1::bigint / 1000000.0) + remaining * interval '1 second' AS at " +
		"FROM unnest($2::bigint[], $3::bigint[]) AS r(id, remaining)) AS n WHERE l.id = n.id AND l.ttl > 0"
	// readRemaining counts up to the last heartbeat, after which nobody could renew.
	readRemaining = "SELECT id, CASE WHEN " + toBeExtended + " THEN ttl * 1000000 ELSE (extract(epoch FROM " +
		"expires_at - COALESCE(" + pausedAt + ", (SELECT LEAST(m.heard_at, clock_timestamp()) " +
		"FROM maintenance AS m WHERE m.id = 1))) * 1000000)::bigint END FROM leases WHERE id >= $1::bigint " +
		"ORDER BY id LIMIT $2::bigint"
)

// Import implements [backend.Importing].
func (b *Backend) Import(ctx context.Context) (i backend.Import, err error) {
	reset := func() { i = backend.Import{} }
	err = b.reads.query(ctx, "read what is being imported", reset, func(s *scanner) error {
		i = importRow(s)
		return nil
	}, readImport)
	return i, err
}

func importRow(s *scanner) backend.Import {
	return backend.Import{Source: s.integer(), Gaps: s.integer(), Holder: s.integer()}
}

// SetImport implements [backend.Importing].
func (b *Backend) SetImport(ctx context.Context, was, next backend.Import, clusterID uint64) error {
	names := []string{"import_source", "import_gaps", "import_holder"}
	values := []int64{next.Source, next.Gaps, next.Holder}
	if clusterID != 0 {
		names, values = append(names, "cluster_id"), append(values, int64(clusterID))
	}
	return b.changeImported(ctx, "mark an import", was, changeSettings, names, values)
}

// changeImported runs a statement in a transaction in which was is stored.
func (b *Backend) changeImported(
	ctx context.Context, doing string, was backend.Import, statement string, args ...any,
) error {
	locked, err := b.Begin(ctx, backend.Needs{Import: true})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if locked.Loaded().Import != was {
		locked.Rollback()
		return fmt.Errorf("%s: %w", doing, backend.ErrTakenOver)
	}
	if err := locked.(*tx).change(ctx, statement, args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// SetRemaining implements [backend.Importing].
func (b *Backend) SetRemaining(ctx context.Context, was backend.Import, remaining map[int64]time.Duration) error {
	err := b.changeImported(ctx, "begin to store the remaining time of leases", was, endPause)
	if err != nil || remaining == nil {
		return err
	}
	now := int64(0)
	err = b.reads.query(ctx, "read the time", func() {}, func(s *scanner) error {
		now = s.integer()
		return nil
	}, microsecondClock)
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(remaining)), extensionPart) {
		left := make([]int64, len(ids))
		for i, id := range ids {
			left[i] = int64(remaining[id] / time.Second)
		}
		err := b.changeImported(ctx, "store the remaining time of leases", was, changeRemaining, now, ids, left)
		if err != nil {
			return err
		}
	}
	return b.changeImported(ctx, "store when leases were paused", was, changeSettings,
		[]string{"leases_paused_at"}, []int64{now})
}

// Remaining implements [backend.Importing].
func (b *Backend) Remaining(ctx context.Context) (map[int64]time.Duration, error) {
	all, page := map[int64]time.Duration{}, map[int64]time.Duration{}
	for from, read := int64(math.MinInt64), leasePage; read == leasePage; {
		reset := func() { read = 0; clear(page) }
		err := b.reads.query(ctx, "read the remaining time of leases", reset, func(s *scanner) error {
			from = s.integer()
			page[from] = microseconds(s.integer())
			read++
			return nil
		}, readRemaining, from, int64(leasePage))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, page)
		if from == math.MaxInt64 {
			break
		}
		from++
	}
	return all, nil
}
