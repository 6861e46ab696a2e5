package sqlite

import (
	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// beginWriteBack makes the kernel start to write a file's dirty pages from the page cache, without waiting. This is not
// a sync: it makes nothing durable, and an error that the disk reports shows up in the next sync.
func beginWriteBack(f *pagesum.File) {
	_ = unix.SyncFileRange(f.Fd(), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
