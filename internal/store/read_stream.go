package store

import (
	"context"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// chunkBytes ends a chunk with the row at which keys and values reach it: an open stream holds little while nobody
	// reads it, and a chunk that ends with the largest value stays below the 4 MiB that gRPC's clients take by default.
	chunkBytes = 1 << 20
	// streamFirst is the size of the first chunk of a RangeStream; the next ones double, up to what would fill half of
	// chunkBytes.
	streamFirst = 10
	// chunkFirst is the first chunk of what is read for ourselves.
	chunkFirst = 100
	// heldBytes bounds one statement's part of what is in memory whole in the end: a statement must come to its end in
	// time.
	heldBytes = 16 << 20
)

// RangeStream hands the rows of req's range to send in chunks, all at one revision, holding no more than a chunk in
// memory. The result has everything but the rows. req has no order and no filters: the caller refuses those. With a
// sort target other than the key the rows are sorted, for which all are looked at before the first is sent; etcd sorts
// each chunk and then goes on behind its last key, so that it loses rows or repeats them as soon as there are more than
// ten.
//
// A compaction that overtakes an open stream does not end it, as it ends etcd's: rows that the stream may still read
// are not deleted. Only one that is still open after [StreamPinLimit] may end with [ErrCompacted]; over a database that
// other processes write to also one that is overtaken at once, or whose pin was lost in a failover. Errors: as Range,
// and what send returns.
func (s *Store) RangeStream(
	ctx context.Context, req *RangeRequest, send func(rows []*Row) error,
) (*RangeResult, error) {
	if !req.Serializable {
		if err := s.confirm(ctx); err != nil {
			return nil, err
		}
	}
	sp := index.NewSpan(req.Key, req.End)
	v, err := s.pin(req.Revision)
	if err != nil {
		return nil, err
	}
	defer v.pin.end()
	defer v.snap.End()
	res := &RangeResult{Revision: v.current, Epoch: v.epoch}
	if sp.Empty {
		return res, nil
	}
	if req.CountOnly {
		res.Count, err = s.count(ctx, sp, v)
		return res, err
	}
	if !req.plain() {
		return s.sortedStream(ctx, req, sp, v, send)
	}
	limit := req.Limit
	if limit <= 0 {
		limit = -1
	}
	next, more, err := s.scan(ctx, sp, v, limit, chunkSize{streamFirst, chunkBytes}, req, func(rows []*Row) error {
		res.Count += int64(len(rows))
		return send(rows)
	})
	if err != nil {
		return nil, err
	}
	if res.More = more; more && !req.NoCount {
		res.Count, err = s.countPage(ctx, sp, v, next, res.Count)
	}
	return res, err
}

// chunkSize bounds a chunk: it ends with the row at which the sizes of its rows reach bytes, if not before.
type chunkSize struct {
	rows  int
	bytes int64
}

// next is the size of the chunk after one that was read as rows.
func (c chunkSize) next(rows []*Row) chunkSize {
	return chunkSize{fitChunk(c.rows, len(rows), sizeOf(rows), readChunk), c.bytes}
}

// cut ends rows with the one at which their sizes reach bytes; 0 is no bound.
func cut(rows []*Row, bytes int64) []*Row {
	if bytes <= 0 {
		return rows
	}
	for i, r := range rows {
		if bytes -= r.Size(); bytes <= 0 {
			return rows[:i+1]
		}
	}
	return rows
}

func sizeOf(rows []*Row) (total int64) {
	for _, r := range rows {
		total += r.Size()
	}
	return total
}

// fitChunk doubles a chunk's size, up to most, unless what the last one read says that it would fill more than half of
// chunkBytes.
func fitChunk(size, read int, total int64, most int) int {
	if read == 0 {
		return size
	}
	fits := chunkBytes / 2 * int64(read) / max(1, total)
	return int(max(1, min(int64(2*size), int64(most), fits)))
}
