package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// Reclaim implements [backend.Backend]. The file shrinks with the next checkpoint.
func (b *Backend) Reclaim(ctx context.Context, pages int) (done bool, err error) {
	if err := b.takeTurn(ctx); err != nil {
		return false, err
	}
	defer b.giveTurn()
	// Each step of this pragma gives one page back, so it has to be stepped to its end.
	err = b.writeLazily("give space back", func(c *conn) error {
		_, err := c.queryInts(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", max(pages, 1)))
		return err
	})
	if err != nil {
		return false, err
	}
	free, err := b.writer.queryInt("PRAGMA freelist_count")
	b.checkpoints.poke()
	return free == 0, translate("count free pages", err)
}

// Defragment implements [backend.Backend]. It takes as much room on the disk again as the database has rows.
func (b *Backend) Defragment(ctx context.Context) error {
	if err := b.takeTurn(ctx); err != nil {
		return err
	}
	defer b.giveTurn()
	if err := b.writer.exec("VACUUM"); err != nil {
		return b.syncError("defragment", err)
	}
	mode, err := b.writer.queryInt("PRAGMA auto_vacuum")
	if err != nil || mode != incrementalVacuum {
		return errors.Join(translate("defragment", err), errIf(err == nil, fmt.Sprintf("defragment: auto_vacuum became %d", mode)))
	}
	// Readers may hold it up; then the checkpointer does it.
	if _, err = b.writer.queryInts("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return b.syncError("checkpoint after defragmenting", err)
	}
	return nil
}

// Size implements [backend.Backend].
func (b *Backend) Size(ctx context.Context) (backend.Size, error) {
	var total, free int64
	_, err := b.read(ctx, "read the size", func(c *conn) (err error) {
		if total, err = c.queryInt("PRAGMA page_count"); err == nil {
			free, err = c.queryInt("PRAGMA freelist_count")
		}
		return err
	})
	return backend.Size{Total: total * b.pageSize, InUse: max(0, total-free) * b.pageSize, Reads: cap(b.readers) - len(b.readers)}, err
}
