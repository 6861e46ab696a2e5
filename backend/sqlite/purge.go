package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// purgeProgress is the progress of the removal of rows: those below next are done for a compaction at target.
type purgeProgress struct{ target, next int64 }

// advance makes p the progress of a compaction at target. An earlier compaction left rows at its own target, because a
// watch from there still showed them; they are examined again.
func (p *purgeProgress) advance(target int64) {
	if p.target < target {
		p.next = min(p.next, firstID(p.target))
		p.target = target
	}
}

// through returns the revision up to which everything is done.
func (p *purgeProgress) through() int64 { return max(0, revisionOf(p.next)-1) }

const (
	// windowRows is how many rows of the walk one window covers, and keyBytes is the maximum total length of the keys
	// to be removed.
	windowRows = 8 << 10
	keyBytes   = 4 << 20
	// walkRows is how many of these rows one statement reads. It is small because the WAL cannot start again while the
	// statement runs.
	walkRows = 512
)

// window is a stretch of the walk with the rows to remove for it, in key order. Rows on the same page of the key index
// are then removed in the same transaction, which writes that page to the WAL once instead of once for each row.
type window struct {
	before, after purgeProgress
	scanned       int  // rows of the walk
	keyBytes      int  // total, of removals
	whole         bool // the walk has reached its end
	removals      []removal
	removed       int // number of removals done
}

// removal identifies a row: the version of key at that revision or, if id is not 0, the tombstone with that id.
type removal struct {
	key      []byte
	revision int64
	id       int64
}

// Purge implements [backend.Backend].
//
// Purge walks through the rows in the order in which they were written and removes what each one superseded. So it
// finds everything in a walk as long as the number of revisions, and removes a tombstone only after the row below it,
// which would otherwise become the key's newest. For a row at revision r and a compaction at C >= r, it removes the row
// that it superseded, if that is older than r or r < C; and the row itself, if it is a tombstone and r < C. What
// remains at C is what a watch from C shows. A row that does not match its checksum removes only older versions of its
// key, as it may not be a tombstone.
//
// The walk proceeds in windows, concurrently with the writer, and what a window finds is removed key by key, oldest
// first. A step is a part of a walk, or a part of the removal, or the end of a walk and the beginning of its removal.
// Progress is recorded when a window is done: after a crash the last window is walked again, and rows that are already
// gone are not found.
func (b *Backend) Purge(ctx context.Context, limit int, until int64) (res backend.PurgeResult, err error) {
	b.purging.Lock()
	defer b.purging.Unlock()
	if err := b.writable(); err != nil {
		return res, err
	}
	if b.window == nil {
		if b.window, err = b.nextWindow(ctx, until); b.window == nil || err != nil {
			return res, err
		}
	}
	w := b.window
	if !w.whole {
		began := time.Now()
		if err := b.walk(ctx, w); err != nil {
			return res, err
		}
		res.Duration = time.Since(began)
	}
	if w.whole && w.pending() {
		if err := b.remove(ctx, w, max(limit, 1), &res); err != nil {
			return backend.PurgeResult{}, err
		}
	}
	res.Through, res.Near = w.before.through(), w.near()
	if w.whole && !w.pending() {
		b.window = nil
		res.Through, res.Near = w.after.through(), w.after.through()
		res.Done = res.Through >= b.clock.Load().Compacted // Compacted is -1 after a compaction at 0
	}
	return res, nil
}

// pending reports whether w still has something to write.
func (w *window) pending() bool { return w.removed < len(w.removals) || w.after != w.before }

// near returns where the walk would be if rows were removed in its order.
func (w *window) near() int64 {
	from, to := w.before.through(), w.after.through()
	return from + int64(float64(to-from)*float64(w.removed)/float64(max(len(w.removals), 1)))
}

// nextWindow returns a window that begins where the last one ended, or nil when until keeps everything that is left.
func (b *Backend) nextWindow(ctx context.Context, until int64) (*window, error) {
	w := &window{}
	_, err := b.read(ctx, "read how far rows are purged", func(c *conn) error {
		return c.each(context.Background(), purgeState, func(row []driver.Value) bool {
			w.before = purgeProgress{integer(row[0]), integer(row[1])}
			return false
		})
	})
	if err != nil {
		return nil, err
	}
	w.after = w.before
	compacted := b.clock.Load().Compacted
	w.after.advance(min(compacted, until))
	if until < compacted && w.after == w.before && w.after.next >= firstID(w.after.target+1) {
		return nil, nil
	}
	return w, nil
}

// walk continues w's walk for one statement. At the end of the walk it sorts what was found.
func (b *Backend) walk(ctx context.Context, w *window) error {
	limit, found := min(walkRows, b.windowRows-w.scanned), *w
	ctx = backend.Maintenance(ctx)
	_, err := b.readMany(ctx, "look for rows to purge", func(c *conn) error { return found.scan(c, limit) })
	if err != nil {
		return err
	}
	if found.whole = found.whole || found.scanned >= b.windowRows || found.keyBytes >= keyBytes; found.whole {
		slices.SortStableFunc(found.removals, func(a, b removal) int { return bytes.Compare(a.key, b.key) })
	}
	*w = found
	return nil
}

// scan moves w.after past up to limit rows, and notes what to remove for them.
func (w *window) scan(c *conn, limit int) error {
	began, target := w.scanned, w.after.target
	err := c.each(context.Background(), purgeRows, func(row []driver.Value) bool {
		var r backend.Row
		readRow(&r, row[:rowColumns])
		sum, written := integer(row[rowColumns]), integer(row[rowColumns+1])
		below := r.ModRevision < target && c.sums.CheckHead(&r, written, sum) == nil
		if r.PrevRevision != 0 && (r.PrevRevision < r.ModRevision || below) {
			w.note(removal{key: r.Key, revision: r.PrevRevision})
		}
		id := integer(row[1])
		if r.Deleted && below {
			w.note(removal{key: r.Key, id: id})
		}
		w.scanned++
		w.after.next = id + 1
		return w.keyBytes < keyBytes
	}, w.after.next, firstID(target+1), int64(limit))
	if err == nil && w.scanned-began < limit && w.keyBytes < keyBytes {
		w.after.next, w.whole = firstID(target+1), true
	}
	return err
}

func (w *window) note(r removal) {
	w.removals = append(w.removals, r)
	w.keyBytes += len(r.key)
}

// remove removes the next rows of w, except those that are already gone.
func (b *Backend) remove(ctx context.Context, w *window, limit int, res *backend.PurgeResult) error {
	if err := b.acquireWriter(ctx); err != nil {
		return err
	}
	defer b.releaseWriter()
	began := time.Now()
	next := w.removals[w.removed:min(len(w.removals), w.removed+limit)]
	err := b.writeLazily("purge", func(c *conn) error {
		for i := range next {
			n, err := c.remove(&next[i])
			if err != nil {
				return err
			}
			res.Removed += int(n)
		}
		if w.removed+len(next) < len(w.removals) {
			return nil
		}
		_, err := c.run(savePurge, w.after.target, w.after.next)
		return err
	})
	if err != nil {
		return err
	}
	if w.removed += len(next); w.removed == len(w.removals) {
		w.before = w.after
	}
	b.checkpoints.removed(res.Removed)
	res.Examined, res.Blocked = len(next), time.Since(began)
	res.Duration += res.Blocked
	return nil
}

func (c *conn) remove(r *removal) (int64, error) {
	if r.id != 0 {
		// A damaged row may have left older versions behind; without the tombstone, one of them would be the newest.
		if _, err := c.run(deleteOlder, r.key, revisionOf(r.id)); err != nil {
			return 0, err
		}
		return c.run(deleteRow, r.id)
	}
	return c.run(deleteVersion, r.key, r.revision)
}
