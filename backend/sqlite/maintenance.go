package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// slack is the share of the file that stays free: one in this many pages. Steady writes use as much space as compaction
// frees. Returning that space each time would mean moving a page for every page returned, and the file would grow again
// immediately.
const slack = 8

// Reclaim implements [backend.Backend]. The file shrinks with the next checkpoint.
func (b *Backend) Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error) {
	if err := b.acquireWriter(ctx); err != nil {
		return false, 0, err
	}
	defer b.releaseWriter()
	began := time.Now()
	done, err = b.reclaim(pages)
	return done, time.Since(began), err
}

func (b *Backend) reclaim(pages int) (done bool, err error) {
	surplus, err := b.surplus()
	if err != nil || surplus <= 0 {
		return err == nil, err
	}
	// Each step of this pragma frees one page, so it has to be stepped to its end.
	err = b.writeLazily("give space back", func(c *conn) error {
		_, err := c.queryInts(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(max(int64(pages), 1), surplus)))
		return err
	})
	if err != nil {
		return false, err
	}
	b.checkpoints.poke()
	surplus, err = b.surplus()
	return err == nil && surplus <= 0, err
}

// surplus returns how many more pages are free than the slack. There is no slack while the disk is full: the reserve
// needs the room, and no row is accepted that could use it.
func (b *Backend) surplus() (pages int64, err error) {
	free, err := b.writer.queryInt("PRAGMA freelist_count")
	if err != nil {
		return 0, translate("count free pages", err)
	}
	if b.reserve.released() {
		return free, nil
	}
	total, err := b.writer.queryInt("PRAGMA page_count")
	return free - total/slack, translate("count pages", err)
}

// Size implements [backend.Backend].
func (b *Backend) Size(ctx context.Context) (backend.Size, error) {
	var total, free int64
	_, err := b.read(ctx, "read the size", func(c *conn) (err error) {
		if err := b.checkPlace(); err != nil {
			return err
		}
		if total, err = c.queryInt("PRAGMA page_count"); err == nil {
			free, err = c.queryInt("PRAGMA freelist_count")
		}
		return err
	})
	if err != nil {
		return backend.Size{}, err
	}
	wal, beyond, err := b.logSize()
	reads := 0
	for _, lane := range []chan *conn{b.readers, b.scanners, b.maintenance} {
		reads += cap(lane) - len(lane)
	}
	return backend.Size{
		Total: total * b.pageSize, InUse: max(0, total-free) * b.pageSize, Reads: reads,
		Log: beyond, LogStalled: b.checkpoints.stall.lasts(time.Now()), WAL: wal,
	}, translate("read the size of the WAL", err)
}
