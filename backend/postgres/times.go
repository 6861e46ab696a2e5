package postgres

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// nextTime reads the clock and the first commit at or above a revision.
const nextTime = "SELECT " + clockColumns + ", r.*" + fromClock + " LEFT JOIN LATERAL (SELECT resource_version, " +
	"written_at FROM object_versions WHERE resource_version >= $1::bigint " +
	"ORDER BY resource_version, ordinal LIMIT 1) AS r ON true"

// WrittenAt implements [backend.Times].
func (b *Backend) WrittenAt(ctx context.Context, revision int64) (backend.Commit, backend.Clock, error) {
	found, clock, err := b.nextCommit(ctx, revision)
	switch {
	case err != nil:
	case revision > clock.Revision:
		err = backend.ErrFutureRevision
	case found.Revision != revision:
		err = backend.ErrUnknownTime
	}
	if err != nil {
		return backend.Commit{}, clock, err
	}
	return found, clock, nil
}

// CurrentAt implements [backend.Times]. Each lookup is a statement with its own snapshot. That works because rows do
// not change, as long as none of them sees a history other than that of the first.
func (b *Backend) CurrentAt(ctx context.Context, t time.Time) (backend.Commit, backend.Clock, error) {
	clock, err := b.Clock(ctx)
	if err != nil {
		return backend.Commit{}, backend.Clock{}, err
	}
	c, err := backend.SearchCommits(clock.Revision, t, func(revision int64) (backend.Commit, error) {
		c, now, err := b.nextCommit(ctx, revision)
		if err == nil && now.Epoch != clock.Epoch {
			err = backend.ErrOtherEpoch
		}
		clock.Compacted = max(clock.Compacted, now.Compacted)
		return c, err
	})
	return c, clock, err
}

// nextCommit returns the first commit at or above a revision.
func (b *Backend) nextCommit(ctx context.Context, revision int64) (c backend.Commit, clock backend.Clock, err error) {
	reset := func() { c, clock = backend.Commit{}, backend.Clock{} }
	err = b.reads.query(ctx, "read a commit time", reset, func(s *scanner) error {
		if clock = s.clock(); !s.null() {
			c = backend.Commit{Revision: s.integer(), At: time.UnixMilli(s.integer())}
		}
		return nil
	}, nextTime, revision)
	if err == nil {
		err = found(clock)
	}
	return c, clock, err
}
