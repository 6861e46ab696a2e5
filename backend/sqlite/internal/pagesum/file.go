package pagesum

/*
#include <stdlib.h>
#include "vfs.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a database file, read and synced beside SQLite. Its descriptor stays open until the last File and the last of
// SQLite's connections to the file in this process are closed, whatever names they have opened it by: the kernel drops
// SQLite's locks on a file as soon as the process closes any descriptor of it. The zero File is closed.
type File struct {
	path     string
	database *C.database
	fd       int
	locked   bool
}

// ErrLocked is returned by [File.Lock].
var ErrLocked = errors.New("another one has locked the file")

// OpenFile opens the database at path with the flags of [os.OpenFile]. It creates a file for the owner only.
func OpenFile(path string, flags int) (*File, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	f := &File{path: path}
	fd := C.pagesum_open(name, C.int(flags), &f.database)
	if fd < 0 {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.Errno(-fd)}
	}
	f.fd = int(fd)
	return f, nil
}

// ReadAt implements [io.ReaderAt].
func (f *File) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		some, err = f.try("read", func() (int, error) { return unix.Pread(f.fd, p[n:], at+int64(n)) })
		if n += max(some, 0); err == nil && some == 0 {
			err = io.EOF
		}
	}
	return n, err
}

// WriteAt implements [io.WriterAt].
func (f *File) WriteAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		some, err = f.try("write", func() (int, error) { return unix.Pwrite(f.fd, p[n:], at+int64(n)) })
		n += max(some, 0)
	}
	return n, err
}

// Sync makes what was written to the file durable. It seals the file if that fails, see [File.Seal].
func (f *File) Sync() error {
	_, err := f.try("sync", func() (int, error) { return 0, unix.Fsync(f.fd) })
	if err != nil {
		f.Seal(true)
	}
	return err
}

// Stat returns the size of the file in bytes and the time of its last change.
func (f *File) Stat() (size int64, modified time.Time, err error) {
	info, err := f.stat()
	return info.Size, time.Unix(info.Mtim.Unix()), err
}

// At reports whether the file is at that path.
func (f *File) At(path string) (bool, error) {
	info, err := f.stat()
	if err != nil {
		return false, err
	}
	var at unix.Stat_t
	switch err := unix.Stat(path, &at); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return false, nil
	case err != nil:
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return at.Dev == info.Dev && at.Ino == info.Ino, nil
}

func (f *File) stat() (info unix.Stat_t, err error) {
	_, err = f.try("stat", func() (int, error) { return 0, unix.Fstat(f.fd, &info) })
	return info, err
}

// Seal says whether SQLite's connections in this process fail instead of changing the file or removing its log. A
// failed sync of either seals the file: pages that it left out may be taken for written, so that a later sync succeeds
// without them, and only the log still has them.
func (f *File) Seal(sealed bool) {
	if f.database == nil {
		return
	}
	n := C.int(0)
	if sealed {
		n = 1
	}
	C.database_seal(f.database, n)
}

// Sealed reports whether the file is sealed.
func (f *File) Sealed() bool { return f.database != nil && C.database_sealed(f.database) != 0 }

// Lock locks the file until f is closed, whatever name it was opened by. It returns [ErrLocked] if another File, in
// this process or another one, has locked it. SQLite's own locks are independent of it. Some systems and file systems
// have no such locks: there, it keeps out only other Files of this process, and all is false.
func (f *File) Lock() (all bool, err error) {
	if f.database == nil {
		return false, fmt.Errorf("lock %s: %w", f.path, os.ErrClosed)
	}
	n := C.database_lock(C.int(f.fd), 1)
	if n < 0 {
		return false, ErrLocked
	}
	f.locked = true
	return n > 0, nil
}

// Fd returns the descriptor, which the caller must not close.
func (f *File) Fd() int { return f.fd }

// Close ends the use of f.
func (f *File) Close() error {
	if f.database != nil {
		if f.locked { // others may still use the descriptor
			C.database_lock(C.int(f.fd), 0)
		}
		C.database_close(f.database, C.int(f.fd))
		f.database = nil
	}
	return nil
}

func (f *File) try(op string, call func() (int, error)) (n int, err error) {
	if f.database == nil {
		return 0, fmt.Errorf("%s %s: %w", op, f.path, os.ErrClosed)
	}
	for {
		n, err = call()
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return n, &os.PathError{Op: op, Path: f.path, Err: err}
		}
	}
}
