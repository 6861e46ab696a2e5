// Package snapshot writes the store as a bbolt file in etcd's format, which `etcdutl snapshot restore` accepts, and
// computes the hashes that etcd computes of such a file. Revisions, leases, alarms, users and roles are preserved,
// so that you can move to etcd.
//
// Rows superseded at or below the compacted revision are omitted, and the file says that the compaction up to there is
// finished: otherwise an etcd restored from it would fall back behind a compacted last revision.
package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// batchBytes is how much is written to the file before bbolt commits; it limits the memory of a snapshot.
const batchBytes = 8 << 20

// File is a finished snapshot: the bytes of the bbolt file followed by their sha256, readable once. Close removes it.
type File struct {
	io.Reader
	// Size is the total number of bytes that Read returns.
	Size int64
	file *unnamed
}

// Close removes the file.
func (f *File) Close() error { return f.file.Close() }

// unnamed is a temporary file without a name, so that the system frees it however the process ends. On systems that
// cannot remove an open file, Close does it.
type unnamed struct {
	*os.File
	dir string
}

func (u *unnamed) Close() error { return errors.Join(u.File.Close(), os.RemoveAll(u.dir)) }

// Write makes a snapshot of what x has pinned, in a temporary file under parent ("": the system's temporary directory).
// Errors: those of x.Rows and of the file system.
func Write(ctx context.Context, x *store.Export, parent string) (*File, error) {
	file, db, err := create(parent)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	err = write(ctx, x, db)
	var info os.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", errors.Join(err, file.Close()))
	}
	sum := sha256.New()
	return &File{
		Reader: io.MultiReader(io.TeeReader(file, sum), &sumReader{sum: sum.Sum}),
		Size:   info.Size() + sha256.Size, file: file,
	}, nil
}

// create makes a database in a file, and a handle to read that file.
func create(parent string) (_ *unnamed, _ *bbolt.DB, err error) {
	dir, err := os.MkdirTemp(parent, "sqlstore-snapshot-")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close(), os.RemoveAll(dir))
	}
	_ = os.RemoveAll(dir) // if not now, then in Close
	return &unnamed{file, dir}, db, nil
}

// sumReader appends a checksum that is complete only after everything before it has been read.
type sumReader struct {
	sum  func([]byte) []byte
	left []byte
}

func (r *sumReader) Read(p []byte) (int, error) {
	if r.sum != nil {
		r.left, r.sum = r.sum(nil), nil
	}
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// write writes everything, and closes the database.
func write(ctx context.Context, x *store.Export, db *bbolt.DB) (err error) {
	w := &writer{db: db}
	defer func() {
		if w.tx != nil {
			_ = w.tx.Rollback() // the file is discarded
		}
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	if err := w.begin(); err != nil {
		return err
	}
	for _, name := range buckets {
		if _, err := w.tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	for _, p := range metadata(x) {
		if err := w.put(p.bucket, p.key, append(p.value, p.rest...)); err != nil {
			return err
		}
	}
	if err := x.Rows(ctx, w.row); err != nil {
		return err
	}
	return w.end()
}

// writer puts pairs into the file, and commits in between.
type writer struct {
	db    *bbolt.DB
	tx    *bbolt.Tx
	bytes int
}

func (w *writer) begin() (err error) {
	w.tx, err = w.db.Begin(true)
	w.bytes = 0
	return err
}

func (w *writer) end() error {
	err := w.tx.Commit()
	w.tx = nil
	return err
}

func (w *writer) put(bucket, key, value []byte) error {
	b := w.tx.Bucket(bucket)
	b.FillPercent = 0.9 // keys arrive in order
	return b.Put(key, value)
}

func (w *writer) row(r backend.Row) error {
	value := appendRow(nil, &r)
	if err := w.put(bucketKey, appendRevision(nil, r.ID(), r.Deleted), value); err != nil {
		return err
	}
	if w.bytes += len(value); w.bytes < batchBytes {
		return nil
	}
	if err := w.end(); err != nil {
		return err
	}
	return w.begin()
}
