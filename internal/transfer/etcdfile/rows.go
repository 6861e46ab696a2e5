package etcdfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

var bucketKey = []byte("key")

const (
	// idSize is the size of a revision, an underscore and an ordinal; a tombstone has a letter behind them.
	idSize    = 17
	tombstone = 't'
	// checkEvery is how many rows are read between two looks at the context.
	checkEvery = 1024
)

// place is where a row is.
type place struct{ revision, ordinal int64 }

// Rows implements [backend.Source].
func (f *File) Rows(ctx context.Context, yield func(*backend.Row) error) error {
	var failed error // yield's, which must keep its panics and its meaning
	err := guard(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			return f.each(ctx, tx, math.MaxInt64, func(r *backend.Row) error {
				if !f.survivors.Has(r) {
					return nil
				}
				failed = yield(r)
				return failed
			})
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

// findSurvivors looks at the rows that a compaction concerns. One that is under way has not removed all of them yet.
func (f *File) findSurvivors(ctx context.Context, tx *bbolt.Tx) error {
	f.survivors = transfer.NewSurvivors(f.contents.Compacted)
	return f.each(ctx, tx, f.contents.Compacted, func(r *backend.Row) error {
		f.survivors.See(r)
		return nil
	})
}

// each calls visit with the rows up to a revision. They point into the file.
func (f *File) each(ctx context.Context, tx *bbolt.Tx, until int64, visit func(*backend.Row) error) error {
	bucket := tx.Bucket(bucketKey)
	if bucket == nil {
		return fmt.Errorf("%w: it has no bucket of keys: it is not a database of etcd 3", backend.ErrSource)
	}
	cursor := bucket.Cursor()
	n := 0
	for id, value := cursor.First(); id != nil; id, value = cursor.Next() {
		if n++; n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if len(value) == 0 && f.raises(id) {
			continue
		}
		r, err := parse(id, value)
		if err != nil {
			return err
		}
		if r.ModRevision > until {
			return nil
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

// raises reports whether an entry without a value only raises the revision, to one that counts as compacted:
// `etcdutl snapshot restore --bump-revision` writes it. For etcd it is a key, so only the last of them is left.
func (f *File) raises(id []byte) bool {
	at, deleted, err := parseID(id)
	if err != nil || deleted || at.ordinal != 0 || at.revision > f.contents.Compacted {
		return false
	}
	f.contents.Raised = max(f.contents.Raised, at.revision)
	return true
}

func parse(id, value []byte) (r backend.Row, err error) {
	at, deleted, err := parseID(id)
	if err != nil {
		return r, err
	}
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(value, &kv); err != nil {
		return r, fmt.Errorf("%w: the row of revision %d: %w", backend.ErrDamagedSource, at.revision, err)
	}
	if at.revision < 1 || at.ordinal < 0 || at.ordinal > math.MaxInt32 {
		return r, fmt.Errorf("%w: a row has revision %d and number %d", backend.ErrDamagedSource, at.revision,
			at.ordinal)
	}
	r = backend.Row{Key: kv.Key, ModRevision: at.revision, Ordinal: int32(at.ordinal), Deleted: deleted}
	if deleted {
		return r, nil
	}
	if kv.ModRevision != at.revision {
		return r, fmt.Errorf("%w: the row of revision %d says that it is of revision %d", backend.ErrDamagedSource,
			at.revision, kv.ModRevision)
	}
	r.Value, r.CreateRevision, r.Version, r.Lease = kv.Value, kv.CreateRevision, kv.Version, kv.Lease
	return r, nil
}

var errID = errors.New("an entry of the bucket of keys has no revision")

func parseID(id []byte) (p place, deleted bool, err error) {
	deleted = len(id) == idSize+1 && id[idSize] == tombstone
	if len(id) != idSize && !deleted || id[8] != '_' {
		return p, false, fmt.Errorf("%w: %w: %x", backend.ErrDamagedSource, errID, id[:min(len(id), 2*idSize)])
	}
	p.revision = int64(binary.BigEndian.Uint64(id))
	p.ordinal = int64(binary.BigEndian.Uint64(id[9:]))
	return p, deleted, nil
}

// lastRevision returns the revision of the last row, 1 if there is none.
func lastRevision(tx *bbolt.Tx) (int64, error) {
	bucket := tx.Bucket(bucketKey)
	if bucket == nil {
		return 0, fmt.Errorf("%w: it has no bucket of keys: it is not a database of etcd 3", backend.ErrSource)
	}
	id, _ := bucket.Cursor().Last()
	if id == nil {
		return 1, nil
	}
	p, _, err := parseID(bytes.Clone(id))
	return p.revision, err
}
