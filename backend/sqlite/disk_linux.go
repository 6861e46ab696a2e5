package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// blockSize returns the unit of the block counts. Bsize is another one on FUSE.
func blockSize(st *unix.Statfs_t) int64 { return st.Frsize }

// allocate makes the file system allocate the file's first size bytes. Errors: [errors.ErrUnsupported] where it cannot.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
