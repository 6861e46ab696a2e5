package postgres

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// readSince reads the clock and the revision above which rows have a time.
	readSince = "SELECT " + clockColumns + ", (SELECT since FROM checksums WHERE id = 1)" + fromClock
	// nextTime reads the clock and the first commit with a known time at or above a revision.
	nextTime = "SELECT " + clockColumns + ", r.*" + fromClock + " LEFT JOIN LATERAL (SELECT resource_version, " +
		"written_at FROM object_versions WHERE resource_version >= $1::bigint AND written_at IS NOT NULL " +
		"ORDER BY resource_version, ordinal LIMIT 1) AS r ON true"
)

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
	var clock backend.Clock
	var since int64
	reset := func() { clock, since = backend.Clock{}, 0 }
	err := b.reads.query(ctx, "search a commit time", reset, func(s *scanner) error {
		clock, since = s.clock(), s.integer()
		return nil
	}, readSince)
	if err == nil {
		err = found(clock)
	}
	if err != nil {
		return backend.Commit{}, backend.Clock{}, err
	}
	c, err := backend.SearchCommits(since, clock.Revision, t, func(revision int64) (backend.Commit, error) {
		c, now, err := b.nextCommit(ctx, revision)
		if err == nil && now.Epoch != clock.Epoch {
			err = backend.ErrOtherEpoch
		}
		clock.Compacted = max(clock.Compacted, now.Compacted)
		return c, err
	})
	return c, clock, err
}

// nextCommit returns the first commit with a known time at or above a revision.
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
