package store

import (
	"context"
	"math"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// chunkBytes ends a chunk at the row with which its keys and values reach this size. An open stream holds little
	// memory while nobody reads it, and a chunk that ends with the largest value stays below the 4 MiB that gRPC
	// clients accept by default.
	chunkBytes = 1 << 20
	// streamFirst is the number of rows in the first chunk of a RangeStream. Each further chunk doubles it, up to what
	// would fill half of chunkBytes.
	streamFirst = 10
	// chunkFirst is the number of rows in the first chunk of the store's own reads.
	chunkFirst = 100
	// heldBytes bounds what one statement reads of a result that ends up in memory as a whole: a statement must finish
	// in time.
	heldBytes = 16 << 20
	// heldRows bounds the rows of such a statement, because preparing it takes time for each of them, also for those
	// that heldBytes leaves to the next one.
	heldRows = 10_000
)

// RangeStream passes the rows of req's range to send in chunks, all at one revision, and holds at most one chunk in
// memory, which it has reserved before. send learns which chunk is the last one, except over the database if no rows
// follow one that its bytes filled. The result has everything but the rows. req has no sort order and no filters; the
// caller refuses those. With a sort target other than the key, the rows are sorted, so all of them are scanned before
// the first is sent. etcd instead sorts each chunk and continues after its last key, so it loses or repeats rows once
// there are more than ten.
//
// A compaction that overtakes an open stream ends it in etcd. Here it does not: rows that the stream may still read are
// not deleted. Only a stream that is still open after [StreamPinLimit] may end with [ErrCompacted]. Over a database
// that other processes write to, so may a stream that is overtaken before they know of its pin, or whose pin was lost
// in a failover. Errors: as Range, and those of send.
func (s *Store) RangeStream(
	ctx context.Context, req *RangeRequest, send func(rows []*Row, last bool) error,
) (*RangeResult, error) {
	state, err := s.admit(ctx, req.Serializable)
	if err != nil {
		return nil, err
	}
	if err := mayRead(ctx, state, req.Key, req.End); err != nil {
		return nil, err
	}
	sp := index.NewSpan(req.Key, req.End)
	v, err := s.pin(req.Revision)
	if err != nil {
		return nil, err
	}
	defer v.pin.end()
	defer v.snap.End()
	if err := mayRead(ctx, s.Auth(), req.Key, req.End); err != nil { // no older than the rows
		return nil, err
	}
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
	next, more, err := s.scan(ctx, sp, v, limit, chunkSize{streamFirst, chunkBytes}, req, func(read readPart) error {
		return s.sendPart(ctx, read, func(rows []*Row, last bool) error {
			res.Count += int64(len(rows))
			return send(rows, last)
		})
	})
	if err != nil {
		return nil, err
	}
	if res.More = more; more && !req.NoCount {
		res.Count, err = s.countPage(ctx, sp, v, next, res.Count)
	}
	return res, err
}

// sendPart reserves a chunk, reads it and sends it if it has rows. It does not hold one chunk while it waits for the
// reservation of the next.
func (s *Store) sendPart(ctx context.Context, read readPart, send func(rows []*Row, last bool) error) error {
	account, err := s.admission.reserve(ctx, chunkBytes)
	if err != nil {
		return err
	}
	defer account.Release(math.MaxInt64)
	r := &reservation{of: s.admission, account: account, copies: 1, settled: true}
	rows, last, err := read(r.with(ctx))
	if err != nil || len(rows) == 0 {
		return err
	}
	account.resize(sizeOf(rows), true)
	account.start()
	return send(rows, last)
}

// chunkSize bounds a chunk: it ends after rows rows, or at the row with which their total size reaches bytes.
type chunkSize struct {
	rows  int
	bytes int64
}

// next returns the size of the chunk that follows rows.
func (c chunkSize) next(rows []*Row) chunkSize {
	return chunkSize{fitChunk(c.rows, len(rows), sizeOf(rows), readChunk), c.bytes}
}

// cut ends rows at the one with which their total size reaches bytes; 0 means no bound.
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

// fitChunk doubles a chunk's size, up to most, but not beyond what would fill half of chunkBytes, going by the last
// chunk.
func fitChunk(size, read int, total int64, most int) int {
	if read == 0 {
		return size
	}
	fits := chunkBytes / 2 * int64(read) / max(1, total)
	return int(max(1, min(int64(2*size), int64(most), fits)))
}
