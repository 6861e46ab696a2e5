package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// beginWriteBack has the kernel begin to write what a file has in the page cache, and waits for nothing. That is no
// sync: nothing is durable by it, and an error that the disk reports shows in the next one.
func beginWriteBack(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
