package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// The settings that describe an import.
const (
	importSource = "import_source"
	importGaps   = "import_gaps"
	importHolder = "import_holder"
)

// The caches of the writing connection, in KiB. SQLite goes through its whole cache at the end of a commit, because of
// a balanced tree, so a bigger cache costs more than the pages it keeps save: 15 us of CPU per row at 4 MB, 17 at 32
// MB, 18 at 64 MB. The large commits of an import, whose keys come in no order, gain from it.
const (
	writerCache = 4000
	importCache = 256 << 10
)

// Import implements [backend.Importing].
func (b *Backend) Import(ctx context.Context) (i backend.Import, err error) {
	_, err = b.read(ctx, "read what is being imported", func(c *conn) error {
		i, err = c.imported()
		return err
	})
	return i, err
}

func (c *conn) imported() (i backend.Import, err error) {
	err = c.each(context.Background(), readSettings, func(row []driver.Value) bool {
		switch row[0] {
		case importSource:
			i.Source = integer(row[1])
		case importGaps:
			i.Gaps = integer(row[1])
		case importHolder:
			i.Holder = integer(row[1])
		}
		return true
	})
	return i, err
}

// stillImporting returns [backend.ErrTakenOver] unless was is stored.
func (c *conn) stillImporting(was backend.Import) error {
	now, err := c.imported()
	if err == nil && now != was {
		err = backend.ErrTakenOver
	}
	return err
}

// SetImport implements [backend.Importing].
func (b *Backend) SetImport(ctx context.Context, was, next backend.Import, clusterID uint64) error {
	if err := b.acquireWriter(ctx); err != nil {
		return err
	}
	defer b.releaseWriter()
	err := b.write("mark an import", func(c *conn) error {
		if err := c.stillImporting(was); err != nil {
			return err
		}
		values := map[string]int64{importSource: next.Source, importGaps: next.Gaps, importHolder: next.Holder}
		if clusterID != 0 {
			values["cluster_id"] = int64(clusterID)
		}
		for name, value := range values {
			if _, err := c.run(changeSetting, name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	size := writerCache
	if next.Source != 0 {
		size = importCache
	}
	return translate("size the cache", b.writer.exec(fmt.Sprintf("PRAGMA cache_size = -%d", size)))
}

// SetRemaining implements [backend.Importing].
func (b *Backend) SetRemaining(ctx context.Context, was backend.Import, remaining map[int64]time.Duration) error {
	if err := b.acquireWriter(ctx); err != nil {
		return err
	}
	defer b.releaseWriter()
	return b.write("store the remaining time of leases", func(c *conn) error {
		if err := c.stillImporting(was); err != nil {
			return err
		}
		if _, err := c.run(forgetRemaining); err != nil {
			return err
		}
		for id, left := range remaining {
			if _, err := c.run(changeRemaining, id, int64(left.Seconds())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Remaining implements [backend.Importing].
func (b *Backend) Remaining(ctx context.Context) (remaining map[int64]time.Duration, err error) {
	_, err = b.read(ctx, "read the remaining time of leases", func(c *conn) error {
		remaining = map[int64]time.Duration{}
		return c.each(context.Background(), readRemaining, func(row []driver.Value) bool {
			remaining[integer(row[0])] = time.Duration(integer(row[1])) * time.Second
			return true
		})
	})
	return remaining, err
}
