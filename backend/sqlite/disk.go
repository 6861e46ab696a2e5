package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

var _ backend.OnDisk = (*Backend)(nil)

// FreeDisk implements [backend.OnDisk].
func (b *Backend) FreeDisk() (int64, error) { return freeBytes(filepath.Dir(b.path)) }

// freeBytes returns the free space, in bytes, that the directory's file system has for this process.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * blockSize(&st), nil
}

// totalBytes returns the size, in bytes, of the directory's file system.
func totalBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks) * blockSize(&st), nil
}
