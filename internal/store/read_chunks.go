package store

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// readPart reads a part of a read's rows. last reports whether it is the last one.
type readPart func(ctx context.Context) (rows []*Row, last bool, err error)

// scan has f read the rows of the span at v's revision in chunks, at most limit rows in all (-1 for no limit). It
// returns the rest of the span and whether rows remain there.
func (s *Store) scan(
	ctx context.Context, sp index.Span, v view, limit int64, size chunkSize, req *RangeRequest, f func(readPart) error,
) (index.Span, bool, error) {
	for {
		if err := ctx.Err(); err != nil { // a read from memory alone checks ctx nowhere else
			return sp, false, err
		}
		part := size
		if limit >= 0 {
			part.rows = int(min(int64(part.rows), limit))
		}
		var rows []*Row
		var more bool
		err := f(func(ctx context.Context) (_ []*Row, last bool, err error) {
			rows, more, err = s.chunk(ctx, sp, v, part, req)
			return rows, !more || int64(len(rows)) == limit, err
		})
		if err != nil {
			return sp, false, err
		}
		if len(rows) > 0 {
			sp = sp.From(string(rows[len(rows)-1].Key) + "\x00")
		}
		if limit >= 0 {
			limit -= int64(len(rows))
		}
		if !more || limit == 0 {
			return sp, more, nil
		}
		size = size.next(rows)
	}
}

// chunk reads the first rows of the span at v's revision.
func (s *Store) chunk(
	ctx context.Context, sp index.Span, v view, size chunkSize, req *RangeRequest,
) (rows []*Row, more bool, err error) {
	if size.rows > longRead && !hasPermit(ctx) && s.exceeds(sp, v, longRead) {
		permit, err := s.admission.acquireOnce(ctx, min(int64(size.rows)*s.expectedRow(req.KeysOnly), size.bytes))
		if err != nil {
			return nil, false, err
		}
		defer permit.End()
		ctx = permit.with(ctx)
	}
	if items, more, ok := s.walkInMemory(ctx, sp, v, size.rows); ok {
		rows, err = s.firstRows(ctx, items, v.epoch, req, size.bytes)
		return rows, more || len(rows) < len(items), err
	}
	found, more, err := s.fromDatabase(ctx, sp, v, size, req.KeysOnly || req.CountOnly)
	if err != nil {
		return nil, false, err
	}
	rows = make([]*Row, len(found))
	for i := range found {
		rows[i] = &found[i]
		if req.KeysOnly {
			rows[i] = req.keyOnly(rows[i])
		}
	}
	return rows, more, nil
}

// fromDatabase is chunk without an index. more may be true although no rows remain: then the bytes filled the chunk
// before it had the rows asked for.
func (s *Store) fromDatabase(
	ctx context.Context, sp index.Span, v view, size chunkSize, keysOnly bool,
) (rows []Row, more bool, err error) {
	returnPermit(ctx)
	if !keysOnly {
		if err := s.reserveRead(ctx, size.rows, size.bytes); err != nil {
			return nil, false, err
		}
	}
	rows, clock, err := s.backend.Range(ctx, backend.RangeQuery{
		Span: sp.Backend(), Revision: v.rev, Limit: size.rows + 1, Bytes: size.bytes, KeysOnly: keysOnly,
		Pin: v.pin.id(),
	})
	if err == nil {
		err = v.check(clock)
		s.older.read(v, len(rows))
	}
	if err != nil {
		return nil, false, fmt.Errorf("read at revision %d: %w", v.rev, err)
	}
	total, returned := int64(0), int64(0)
	for i := range rows {
		if total += rows[i].Size(); i < size.rows {
			returned = total
		}
	}
	if !keysOnly {
		if err := reservationOf(ctx).read(min(len(rows), size.rows), returned, returned); err != nil {
			return nil, false, err
		}
	}
	switch {
	case len(rows) > size.rows:
		return rows[:size.rows], true, nil
	case total < size.bytes:
		return rows, false, nil
	case len(rows) < size.rows:
		return rows, true, nil
	}
	// The rows are as many as asked for, and may be all that the request asks for. The result must say whether more
	// remain.
	_, more, err = s.fromDatabase(ctx, sp.From(string(rows[len(rows)-1].Key)+"\x00"), v, chunkSize{0, heldBytes}, true)
	return rows, more, err
}
