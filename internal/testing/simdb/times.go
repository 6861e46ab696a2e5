package simdb

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// nextCommit returns the first commit at or above a revision that still has rows.
func (st *state) nextCommit(revision int64) (found backend.Commit, err error) {
	st.rows.Ascend(&version{Row: backend.Row{ModRevision: revision}}, func(v *version) bool {
		found = backend.Commit{Revision: v.ModRevision, At: v.written}
		return false
	})
	return found, nil
}

// WrittenAt implements [backend.Times].
func (b *Client) WrittenAt(ctx context.Context, revision int64) (c backend.Commit, clock backend.Clock, err error) {
	err = b.read(ctx, "written at", func(_ *server, st *state) error {
		c, _ = st.nextCommit(revision)
		clock = st.clock
		switch {
		case revision > clock.Revision:
			return backend.ErrFutureRevision
		case c.Revision != revision:
			return backend.ErrUnknownTime
		}
		return nil
	})
	return c, clock, err
}

// CurrentAt implements [backend.Times].
func (b *Client) CurrentAt(ctx context.Context, t time.Time) (c backend.Commit, clock backend.Clock, err error) {
	err = b.read(ctx, "current at", func(_ *server, st *state) (err error) {
		clock = st.clock
		c, err = backend.SearchCommits(clock.Revision, t, st.nextCommit)
		return err
	})
	return c, clock, err
}
