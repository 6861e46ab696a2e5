package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// purgeProgress is how far the removal of rows came: those below next are done for a compaction at target.
type purgeProgress struct{ target, next int64 }

// advance makes p the progress of a compaction at target. What an earlier one left at its own target, because a watch from
// there still showed it, is looked at again.
func (p *purgeProgress) advance(target int64) {
	if p.target < target {
		p.next = min(p.next, firstID(p.target))
		p.target = target
	}
}

// through is the revision up to which all is done.
func (p *purgeProgress) through() int64 { return max(0, revisionOf(p.next)-1) }

// superseding is what must be known of a row to remove what it superseded.
type superseding struct {
	id       int64
	key      []byte
	deleted  bool
	previous int64
}

// Purge implements [backend.Backend].
//
// It walks through the rows in the order in which they were written and removes what each one superseded. So it finds all of
// it by a walk as long as the number of revisions, and removes a tombstone only after the row below it, which would be the
// key's newest otherwise. Removed are, for a row at revision r and a compaction at C >= r: the row it superseded, if that is
// older than r or r < C; and the row itself, if it is a tombstone and r < C. What remains at C is what a watch from C shows.
func (b *Backend) Purge(ctx context.Context, limit int) (backend.PurgeResult, error) {
	if err := b.takeTurn(ctx); err != nil {
		return backend.PurgeResult{}, err
	}
	defer b.giveTurn()
	began := time.Now()
	p, err := b.writer.purgeProgress()
	if err != nil {
		return backend.PurgeResult{}, translate("read how far rows are purged", err)
	}
	target := b.clock.Load().Compacted
	if finished, err := b.writer.purgeFinished(p, target); err != nil || finished {
		return backend.PurgeResult{Through: target, Done: true}, translate("look for rows to purge", err)
	}
	p.advance(target)
	var res backend.PurgeResult
	err = b.writeLazily("purge", func(c *conn) error {
		res, err = c.purge(&p, max(limit, 1))
		if err == nil {
			_, err = c.run(savePurge, p.target, p.next)
		}
		return err
	})
	if err != nil {
		return backend.PurgeResult{}, err
	}
	b.checkpoints.removed(res.Removed)
	res.Took = time.Since(began)
	return res, nil
}

func (c *conn) purgeProgress() (p purgeProgress, err error) {
	err = c.each(context.Background(), purgeState, func(row []driver.Value) bool {
		p = purgeProgress{integer(row[0]), integer(row[1])}
		return false
	})
	return p, err
}

// purgeFinished tells, without a transaction, that nothing is left of the compaction at target.
func (c *conn) purgeFinished(p purgeProgress, target int64) (bool, error) {
	if p.target != target {
		return false, nil
	}
	rows, err := c.toPurge(p, 1)
	return len(rows) == 0, err
}

func (c *conn) toPurge(p purgeProgress, limit int) (rows []superseding, err error) {
	err = c.each(context.Background(), purgeRows, func(row []driver.Value) bool {
		r := superseding{id: integer(row[0]), deleted: integer(row[2]) != 0, previous: integer(row[3])}
		r.key, _ = row[1].([]byte)
		rows = append(rows, r)
		return true
	}, p.next, firstID(p.target+1), int64(limit))
	return rows, err
}

// purge looks at up to limit rows, removes up to limit, and moves p past those that are done.
func (c *conn) purge(p *purgeProgress, limit int) (res backend.PurgeResult, err error) {
	rows, err := c.toPurge(*p, limit)
	if err != nil {
		return res, err
	}
	res.Done = len(rows) < limit
	for _, r := range rows {
		revision := revisionOf(r.id)
		below := revision < p.target
		if res.Removed < limit && r.previous != 0 && (r.previous < revision || below) {
			n, err := c.run(deleteVersion, r.key, r.previous)
			if err != nil {
				return res, err
			}
			res.Removed += int(n)
		}
		if res.Removed >= limit {
			// The row itself may still be to go; it is looked at again.
			res.Done = false
			break
		}
		if r.deleted && below {
			n, err := c.run(deleteRow, r.id)
			if err != nil {
				return res, err
			}
			res.Removed += int(n)
		}
		p.next = r.id + 1
	}
	if res.Done {
		p.next = firstID(p.target + 1)
	}
	res.Through = p.through()
	return res, nil
}
