// Package snapshot writes the store as a bbolt file in etcd's format, which `etcdutl snapshot restore` accepts, and
// computes the hashes that etcd computes of such a file. Revisions, leases, alarms, users and roles are preserved,
// so that you can move to etcd.
//
// The file is a stream: neither the store nor the file is in memory or in another file. Its first page names the last
// one, so that the rows' sizes are read first.
//
// Rows superseded at or below the compacted revision are omitted, and the file says that the compaction up to there is
// finished: otherwise an etcd restored from it would fall back behind a compacted last revision.
package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// errOtherRows means that the rows read differ in size from their digests.
var errOtherRows = errors.New("the rows do not have the sizes that the database states for them: check the database")

// Snapshot is a file that can be written.
type Snapshot struct {
	// Size is its size in bytes.
	Size int64

	x    *store.Export
	rows *store.Hashed
	// parts is how many parts the rows are measured in. No page has rows of two.
	parts int
	keys  fill   // the pages of the rows
	pairs []pair // of the other buckets
}

// New measures the file of what x has pinned. Errors: those of x.Exported and [store.Hashed.Parts].
func New(ctx context.Context, x *store.Export) (*Snapshot, error) {
	s := &Snapshot{x: x, pairs: metadata(x), parts: int(min(2+x.Revision/smallPart, parts))}
	if err := s.measure(ctx); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	root, err := s.buckets(&pages{w: io.Discard, next: firstPage}, s.skipRows)
	s.Size = (root + 1) * pageSize
	return s, err
}

// smallPart is how many revisions a part has at least: with too few, pages stay empty.
const smallPart = 64

// measure finds how many pages the rows need.
func (s *Snapshot) measure(ctx context.Context) (err error) {
	if s.rows, err = s.x.Exported(ctx); err != nil {
		return err
	}
	fills := make([]fill, s.parts)
	buffers := make([][]byte, s.parts)
	if err := s.rows.Parts(ctx, s.parts, func(part int, d *backend.Digested) error {
		b := appendRevision(buffers[part][:0], d.Row.ID(), d.Row.Deleted)
		buffers[part] = appendTail(appendHead(b, &d.Row, d.Digest.Size), &d.Row)
		fills[part].add(int64(len(buffers[part])) + d.Digest.Size)
		return nil
	}); err != nil {
		return err
	}
	for i := range fills {
		fills[i].end()
		s.keys.leaves += fills[i].leaves
		s.keys.pages += fills[i].pages
	}
	return nil
}

// firstPage is the first page of the buckets.
const firstPage = 3

// Write writes the file. x must still be open. Errors: w's, those of [store.Export.Rows].
func (s *Snapshot) Write(ctx context.Context, w io.Writer) error {
	p := &pages{w: w}
	root := s.Size/pageSize - 1
	err := p.begin(root, root+1)
	if err == nil {
		var last int64
		last, err = s.buckets(p, func(p *pages) (int64, error) { return s.writeRows(ctx, p) })
		if err == nil && last != root {
			err = errOtherRows
		}
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// buckets writes all buckets, those of the rows with the function rows. It returns the page that names them, which is
// the last one.
func (s *Snapshot) buckets(p *pages, rows func(*pages) (root int64, err error)) (int64, error) {
	names := &tree{pages: p}
	for _, bucket := range slices.SortedFunc(slices.Values(buckets), bytes.Compare) {
		var root int64
		var err error
		if bytes.Equal(bucket, bucketKey) {
			root, err = rows(p)
		} else {
			root, err = s.bucket(p, bucket)
		}
		if err == nil {
			err = names.add(bucket, bucketValue(root), bucketEntry)
		}
		if err != nil {
			return 0, err
		}
	}
	return names.end()
}

// bucket writes one of the other buckets.
func (s *Snapshot) bucket(p *pages, name []byte) (root int64, err error) {
	t := &tree{pages: p}
	for _, e := range s.pairs {
		if !bytes.Equal(e.bucket, name) {
			continue
		}
		if err := t.add(e.key, append(e.value, e.rest...), 0); err != nil {
			return 0, err
		}
	}
	return t.end()
}

// skipRows leaves out the pages of the rows. It returns any root, if there is one.
func (s *Snapshot) skipRows(p *pages) (root int64, err error) {
	p.next += s.keys.pages + branches(s.keys.leaves)
	return min(s.keys.leaves, 1), nil
}

// writeRows writes the rows.
func (s *Snapshot) writeRows(ctx context.Context, p *pages) (root int64, err error) {
	t := &tree{pages: p}
	var key, value []byte
	for i := range s.parts {
		after, until := s.rows.Revisions(s.parts, i)
		if err := s.x.RowsBetween(ctx, after, until, func(r backend.Row) error {
			key = appendRevision(key[:0], r.ID(), r.Deleted)
			value = appendRow(value[:0], &r)
			return t.add(key, value, 0)
		}); err != nil {
			return 0, err
		}
		if err := t.endLeaf(); err != nil {
			return 0, err
		}
	}
	return t.end()
}
