// Package snapshot writes the store as a bbolt file in etcd's format, which `etcdutl snapshot restore` accepts.
// Revisions, leases and alarms are preserved, so that you can move to etcd.
//
// Rows superseded at or below the compacted revision are omitted, and the file says that the compaction up to there is
// finished: otherwise an etcd restored from it would fall back behind a compacted last revision.
package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// StorageVersion is etcd's name for the file layout.
const StorageVersion = "3.7.0"

// batchBytes is how much is written to the file before bbolt commits; it limits the memory of a snapshot.
const batchBytes = 8 << 20

var (
	bucketKey     = []byte("key")
	bucketMeta    = []byte("meta")
	bucketLease   = []byte("lease")
	bucketAlarm   = []byte("alarm")
	bucketCluster = []byte("cluster")
	buckets       = [][]byte{
		bucketKey, bucketMeta, bucketLease, bucketAlarm, bucketCluster,
		[]byte("members"), []byte("members_removed"), []byte("auth"), []byte("authUsers"), []byte("authRoles"),
	}
)

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
	if err := w.metadata(x); err != nil {
		return err
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

// metadata writes everything except the rows.
func (w *writer) metadata(x *store.Export) error {
	pairs := [][2][]byte{
		{[]byte("consistent_index"), number(x.Revision)},
		{[]byte("term"), number(1)},
		{[]byte("storageVersion"), []byte(StorageVersion)},
	}
	if x.Compacted > 0 {
		rev := revision(x.Compacted, 0, false)
		pairs = append(pairs, [2][]byte{[]byte("scheduledCompactRev"), rev},
			[2][]byte{[]byte("finishedCompactRev"), rev})
	}
	for _, p := range pairs {
		if err := w.put(bucketMeta, p[0], p[1]); err != nil {
			return err
		}
	}
	for _, l := range x.Leases {
		v := protowire.AppendTag(nil, 1, protowire.VarintType)
		v = protowire.AppendVarint(v, uint64(l.ID))
		v = protowire.AppendTag(v, 2, protowire.VarintType)
		v = protowire.AppendVarint(v, uint64(l.Granted.Seconds()))
		if err := w.put(bucketLease, number(l.ID), v); err != nil {
			return err
		}
	}
	for _, a := range x.Alarms {
		key, err := proto.Marshal(&etcdserverpb.AlarmMember{MemberID: a.Member, Alarm: etcdserverpb.AlarmType(a.Kind)})
		if err != nil {
			return err
		}
		if err := w.put(bucketAlarm, key, []byte{}); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) row(r backend.Row) error {
	kv := &mvccpb.KeyValue{Key: r.Key}
	if !r.Deleted {
		kv = &mvccpb.KeyValue{
			Key: r.Key, Value: r.Value, Lease: r.Lease,
			CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
		}
	}
	value, err := proto.Marshal(kv)
	if err != nil {
		return err
	}
	if err := w.put(bucketKey, revision(r.ModRevision, int64(r.Ordinal), r.Deleted), value); err != nil {
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

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// revision is the key of a row in etcd's file.
func revision(main, sub int64, tombstone bool) []byte {
	b := append(number(main), '_')
	b = binary.BigEndian.AppendUint64(b, uint64(sub))
	if tombstone {
		b = append(b, 't')
	}
	return b
}
