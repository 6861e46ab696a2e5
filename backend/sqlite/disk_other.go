//go:build !linux

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// blockSize returns the unit of the block counts.
func blockSize(st *unix.Statfs_t) int64 { return int64(st.Bsize) }

// allocate returns [errors.ErrUnsupported]: only Linux has a call that allocates blocks on every file system which can.
// The reserve is filled with data instead.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
