package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// WrittenAt implements [backend.Times].
func (b *Backend) WrittenAt(
	ctx context.Context, revision int64,
) (found backend.Commit, clock backend.Clock, err error) {
	clock, err = b.read(ctx, "read a commit time", func(c *conn) error {
		found, err = c.nextCommit(revision)
		return err
	})
	if err == nil {
		err = known(found, revision, clock)
	}
	return found, clock, err
}

// known returns why the time of a revision is not known, given the first commit at or above it, or nil.
func known(found backend.Commit, revision int64, clock backend.Clock) error {
	switch {
	case revision > clock.Revision:
		return backend.ErrFutureRevision
	case found.Revision != revision:
		return backend.ErrUnknownTime
	}
	return nil
}

// CurrentAt implements [backend.Times].
func (b *Backend) CurrentAt(ctx context.Context, t time.Time) (found backend.Commit, clock backend.Clock, err error) {
	until := b.clock.Load().Revision
	clock, err = b.read(ctx, "search a commit time", func(c *conn) error {
		found, err = backend.SearchCommits(until, t, c.nextCommit)
		return err
	})
	return found, clock, err
}

// nextCommit returns the first commit at or above a revision.
func (c *conn) nextCommit(revision int64) (found backend.Commit, err error) {
	err = c.each(context.Background(), nextTime, func(row []driver.Value) bool {
		found = backend.Commit{Revision: revisionOf(integer(row[0])), At: time.UnixMilli(integer(row[1]))}
		return false
	}, firstID(revision))
	return found, err
}
