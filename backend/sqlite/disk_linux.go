package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeBytes returns the free space, in bytes, that the directory's file system has for this process.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Frsize, nil // on FUSE Bsize is another unit
}

// allocate makes the file system allocate the file's first size bytes. Errors: [errors.ErrUnsupported] where it cannot.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
