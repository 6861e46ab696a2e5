package kine

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Errors of exports.
var (
	// ErrNotEmpty is returned if an export would write to a database that has something.
	ErrNotEmpty = errors.New("the target of the export is not empty")
	// ErrCannotStore is returned for what a store has and kine cannot store.
	ErrCannotStore = errors.New("kine cannot store this")
)

// Store is a store at one revision.
type Store struct {
	Revision, Compacted int64
	Leases              []backend.Lease
	// Rows calls a function with the rows of the store, as the export of internal/store does, PrevRevision included.
	Rows func(ctx context.Context, f func(backend.Row) error) error
}

// Export writes a store to the kine database at a URL: its keys, and its history above the compacted revision, at
// their revisions. A SQLite file must not exist, and in other databases, the table kine must be missing or empty.
// Either all is written, or nothing. kine keeps less than sqlstore:
//
//   - A revision has one row in kine. If several keys were written in one transaction and more than one of their rows
//     is left, the store is refused. Kubernetes writes one key in each.
//   - A lease becomes its TTL, which begins anew when kine starts, for each key alone.
//   - Versions, users and roles are lost, except for the version of kube-apiserver's compact_rev_key.
//
// Errors: [ErrNotEmpty], [ErrCannotStore], those of the database and of s.
func Export(ctx context.Context, url string, s *Store) error {
	d, err := parse(url)
	if err != nil {
		return fmt.Errorf("export to kine: %w", err)
	}
	err = d.write(ctx, func(tx *sql.Tx) error {
		e := newExporter(d, newInserter(tx, d), s)
		if err := s.Rows(ctx, func(r backend.Row) error { return e.row(ctx, &r) }); err != nil {
			return err
		}
		return e.end(ctx)
	})
	if err != nil {
		return fmt.Errorf("export to kine: %w", err)
	}
	return nil
}

// exporter turns rows into those of kine.
type exporter struct {
	dialect dialect
	insert  *inserter
	store   *Store
	ttls    map[int64]int64

	last backend.Row // without its value
	// free is the lowest revision without a row, 0 if there is none yet.
	free int64
	seed maphash.Seed
	// tombstones are the revisions at which keys without a newer row were deleted.
	tombstones map[uint64]int64
	// names finds names that the database does not distinguish. It is nil if it distinguishes all.
	names map[uint64]uint64
}

func newExporter(d dialect, insert *inserter, s *Store) *exporter {
	e := &exporter{
		dialect: d, insert: insert, store: s, ttls: map[int64]int64{}, seed: maphash.MakeSeed(),
		tombstones: map[uint64]int64{},
	}
	for _, l := range s.Leases {
		e.ttls[l.ID] = min(max(int64(l.TTL/time.Second), 1), math.MaxInt32) // the column may have 32 bits
	}
	if d.same("A") == d.same("a") {
		e.names = map[uint64]uint64{}
	}
	return e
}

// row writes a row of the store.
func (e *exporter) row(ctx context.Context, r *backend.Row) error {
	if r.Deleted && r.ModRevision <= e.store.Compacted {
		return nil // kine's compaction deletes it
	}
	if r.ModRevision == e.last.ModRevision {
		return fmt.Errorf("%w: revision %d wrote %q and %q, and a revision of kine has one key: write all but one of "+
			"them again, compact the store and repeat the export", ErrCannotStore, r.ModRevision, e.last.Key, r.Key)
	}
	if e.free == 0 && r.ModRevision > e.last.ModRevision+1 {
		e.free = e.last.ModRevision + 1
	}
	e.last = backend.Row{Key: bytes.Clone(r.Key), ModRevision: r.ModRevision}
	name, value, err := e.stored(r)
	if err != nil {
		return err
	}
	prev := e.prev(r, name)
	if r.Deleted {
		return e.insert.row(ctx, r.ModRevision, name, 0, 1, 0, prev, 0, nil)
	}
	created, create := int64(0), r.CreateRevision
	if r.CreateRevision == r.ModRevision {
		created, create = 1, 0
	}
	return e.insert.row(ctx, r.ModRevision, name, created, 0, create, prev, e.ttls[r.Lease], value)
}

// prev returns the row that kine's row supersedes, 0 for none. It is one that was exported: compaction deletes the row
// with this id, whatever its key is.
func (e *exporter) prev(r *backend.Row, name string) int64 {
	if r.ModRevision <= e.store.Compacted {
		return 0
	}
	key := maphash.String(e.seed, e.dialect.same(name))
	before := e.tombstones[key]
	delete(e.tombstones, key)
	if r.Deleted {
		e.tombstones[key] = r.ModRevision
	}
	if r.PrevRevision != 0 {
		return r.PrevRevision
	}
	return before
}

// stored returns the name and the value under which kine stores a row.
func (e *exporter) stored(r *backend.Row) (name string, value []byte, err error) {
	name, value = string(r.Key), r.Value
	switch name {
	case compactKey:
		name = storedCompactKey
		value = append(append(strconv.AppendInt(nil, r.Version, 10), '|'), value...)
	case storedCompactKey:
		err = errors.New("kine shows this key as " + compactKey)
	default:
		err = e.dialect.fits(name)
	}
	if err == nil && e.names != nil {
		key, exact := maphash.String(e.seed, e.dialect.same(name)), maphash.String(e.seed, name)
		if known, ok := e.names[key]; ok && known != exact {
			err = errors.New("another key differs from it only in case")
		}
		e.names[key] = exact
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: key %q at revision %d: %w", ErrCannotStore, r.Key, r.ModRevision, err)
	}
	if value == nil {
		value = []byte{}
	}
	return name, value, nil
}

// end writes the row that holds the compacted revision and, if no row does, one that holds the revision.
func (e *exporter) end(ctx context.Context) error {
	if e.free == 0 {
		e.free = e.last.ModRevision + 1
	}
	if err := e.insert.row(ctx, e.free, compactKey, 1, 0, 0, max(e.store.Compacted, 0), 0, []byte{}); err != nil {
		return err
	}
	if revision := e.store.Revision; e.last.ModRevision < revision && e.free < revision {
		if err := e.insert.row(ctx, revision, fmt.Sprintf("gap-%d", revision), 0, 1, 0, 0, 0, nil); err != nil {
			return err
		}
	}
	return e.insert.end(ctx)
}
