package sqlite

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// allocate gives the file its size and makes the file system allocate all of it.
func (r *reserve) allocate(ctx context.Context) error {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err = allocate(f, r.size); errors.Is(err, errors.ErrUnsupported) {
		err = fill(ctx, f, r.size)
	}
	return errors.Join(err, f.Truncate(r.size), f.Close())
}

// fill writes pseudorandom data, which no file system compresses or stores as a hole.
func fill(ctx context.Context, f *os.File, size int64) error {
	chunk, random := make([]byte, 1<<20), uint64(1)
	for at := int64(0); at < size; at += int64(len(chunk)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range chunk {
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			chunk[i] = byte(random)
		}
		if _, err := f.WriteAt(chunk[:min(int64(len(chunk)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}

// discard gives back the part of the reserve that was allocated.
func (r *reserve) discard(released bool) {
	r.held.Store(0)
	var err error
	if released {
		err = os.Truncate(r.path, 0)
	} else {
		err = os.Remove(r.path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.log.Warn("cannot give back the disk reserve", "path", r.path, "error", err)
	}
}

// allocated returns the bytes that a file takes on disk.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
