package source

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// pageRows and pageBytes bound what is in memory at once.
	pageRows  = 1000
	pageBytes = 4 << 20
	// followEvery is how often a database is asked for new revisions.
	followEvery = 300 * time.Millisecond
)

// errLost is returned if the database lost history while it was read.
var errLost = errors.New("the database lost history in the meantime, as after a failover: run the command again")

// Database is a [Store] that reads a database.
type Database struct{ View backend.View }

var _ Store = (*Database)(nil)

// Now implements [Store].
func (d *Database) Now(ctx context.Context, _ backend.Span) (int64, error) {
	clock, err := d.View.Clock(ctx)
	return clock.Revision, err
}

// Oldest implements [Store].
func (d *Database) Oldest(ctx context.Context, _ backend.Span) (int64, error) {
	clock, err := d.View.Clock(ctx)
	return max(clock.Compacted, 0), err
}

// check returns why a read at a revision saw less than everything, or nil.
func check(c backend.Clock, revision int64) error {
	switch err := c.Check(revision); {
	case errors.Is(err, backend.ErrCompacted):
		return compacted(revision, c.Compacted)
	case err != nil:
		return future(revision, c.Revision)
	}
	return nil
}

// epoch notices that history was lost between two reads.
type epoch int64

func (e *epoch) check(c backend.Clock) error {
	if *e != 0 && *e != epoch(c.Epoch) {
		return errLost
	}
	*e = epoch(c.Epoch)
	return nil
}

// Rows implements [Store].
func (d *Database) Rows(ctx context.Context, q Query, f func(*backend.Row) bool) error {
	var known epoch
	page := backend.RangeQuery{
		Span: q.Span, Revision: q.Revision, Limit: pageRows, Bytes: pageBytes, KeysOnly: q.KeysOnly,
	}
	for left := q.Limit; ; {
		if q.Limit > 0 {
			page.Limit = min(pageRows, left)
		}
		rows, clock, err := d.View.Range(ctx, page)
		if err != nil {
			return err
		}
		if err := errors.Join(known.check(clock), check(clock, q.Revision)); err != nil {
			return err
		}
		for i := range rows {
			if !f(&rows[i]) {
				return nil
			}
		}
		left -= len(rows)
		if len(rows) == 0 || q.End == nil || q.Limit > 0 && left <= 0 {
			return nil
		}
		page.Start = append(rows[len(rows)-1].Key[:len(rows[len(rows)-1].Key):len(rows[len(rows)-1].Key)], 0)
	}
}

// Changes implements [Store].
func (d *Database) Changes(ctx context.Context, q Changes, f func(*backend.Change) error) error {
	var known epoch
	page := backend.HistoryQuery{
		After: q.After, Until: q.Until, Span: q.Span, Limit: pageRows, Bytes: pageBytes, KeysOnly: q.KeysOnly,
		WithPrev: q.WithPrev,
	}
	for {
		h, err := d.View.History(ctx, page)
		if err != nil {
			return err
		}
		if err := errors.Join(known.check(h.Clock), check(h.Clock, page.After)); err != nil {
			return err
		}
		for i := range h.Changes {
			if err := f(&h.Changes[i]); err != nil {
				return err
			}
		}
		page.After = max(page.After, h.Through)
		switch {
		case q.Until > 0 && page.After >= q.Until:
			return nil
		case page.After < h.Clock.Revision:
			continue
		case q.Until > 0:
			return future(q.Until, h.Clock.Revision)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// When implements [Store].
func (d *Database) When(ctx context.Context, revision int64) (time.Time, error) {
	c, _, err := d.View.WrittenAt(ctx, revision)
	return c.At, err
}

// At implements [Store].
func (d *Database) At(ctx context.Context, t time.Time) (int64, error) {
	c, _, err := d.View.CurrentAt(ctx, t)
	return c.Revision, err
}

// Close implements [Store].
func (d *Database) Close() error { return d.View.Close() }
