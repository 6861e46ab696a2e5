// Package etcdfile reads etcd's database file: a snapshot, or a copy of member/snap/db. Snapshots of sqlstore have the
// same format.
package etcdfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

const (
	// sector divides the size of every database file; a snapshot has a SHA-256 behind it.
	sector = 512
	// lockTimeout is how long Open waits for a process that has the file open.
	lockTimeout = time.Second
	// give ends the errors for other files.
	give = "give a file of 'etcdctl snapshot save', or member/snap/db of a stopped etcd"
)

// File is an open database file. It implements [backend.Source].
type File struct {
	db        *bbolt.DB
	contents  backend.Contents
	remaining map[int64]time.Duration
	survivors *transfer.Survivors
}

// Open opens the file at path, and verifies the checksum that a snapshot has. Errors: [backend.ErrSource],
// [backend.ErrDamagedSource].
func Open(ctx context.Context, path string) (*File, error) {
	if err := verify(ctx, path); err != nil {
		return nil, err
	}
	f := &File{remaining: map[int64]time.Duration{}}
	err := guard(func() (err error) {
		f.db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
		switch {
		case errors.Is(err, bbolterrors.ErrTimeout):
			return fmt.Errorf("%w: %s is open in an etcd: stop it, or take a snapshot with 'etcdctl snapshot save'",
				backend.ErrSource, path)
		case err != nil:
			return fmt.Errorf("%w: %s is not a database of etcd: %w: %s", backend.ErrSource, path, err, give)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = guard(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			if err := checkSize(tx, path); err != nil {
				return err
			}
			if err := f.readContents(tx); err != nil {
				return err
			}
			return f.findSurvivors(ctx, tx)
		})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// verify compares a snapshot with the checksum at its end. A copied database has none.
func verify(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	switch size := info.Size(); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a file: name a snapshot, or member/snap/db in a data directory",
			backend.ErrSource, path)
	case size%sector == 0 && size > 0:
		return nil
	case size%sector != sha256.Size:
		return fmt.Errorf("%w: %s is truncated, or not a snapshot of etcd: its size is %d: %s",
			backend.ErrDamagedSource, path, size, give)
	default:
		return checkSum(ctx, file, size-sha256.Size)
	}
}

func checkSum(ctx context.Context, file *os.File, size int64) error {
	sum := sha256.New()
	if _, err := io.CopyN(sum, interruptible{ctx, file}, size); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	var want [sha256.Size]byte
	if _, err := file.ReadAt(want[:], size); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	if !bytes.Equal(sum.Sum(nil), want[:]) {
		return fmt.Errorf("%w: %s does not match the checksum at its end: take a new snapshot",
			backend.ErrDamagedSource, file.Name())
	}
	return nil
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// checkSize returns an error if the file ends before its last page: to read a missing one ends the process.
func checkSize(tx *bbolt.Tx, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("%w: it is truncated: it has %d bytes, and should have %d", backend.ErrDamagedSource,
			info.Size(), tx.Size())
	}
	return nil
}

// guard turns what bbolt does on damaged pages, a panic or a fault of its memory map, into an error.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", backend.ErrDamagedSource, p)
		}
	}()
	return f()
}

// Contents implements [backend.Source].
func (f *File) Contents() *backend.Contents { return &f.contents }

// Remaining implements [transfer.LeaseTimes]. etcd saves the remaining TTL only with its feature LeaseCheckpoint,
// every few minutes. The file does not say when.
func (f *File) Remaining(context.Context) (map[int64]time.Duration, error) { return f.remaining, nil }

// Close implements [backend.Source].
func (f *File) Close() error {
	if f.db == nil {
		return nil
	}
	return f.db.Close()
}
