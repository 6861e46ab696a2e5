package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// walkLocked is how many items a read may pass under the index's lock before it takes a snapshot instead.
	walkLocked = 256
	// readChunk is how many rows one statement reads from the database.
	readChunk = 1000
	// readTries bounds how often a read of the current revision finds that what it was to read is gone.
	readTries = 5
)

// view is where a read at one revision gets its rows from: a snapshot of the index, or the database when it has none.
type view struct {
	rev     int64
	current int64 // the store's revision when the view was made
	tree    *index.Tree
	snap    *index.Snapshot // in place of the tree where a client may take its time
	pin     *pin            // keeps the rows of rev though it is compacted; nil for short reads

	epoch int64
}

// check says whether what was read in the snapshot of clock c, with the pin's id named, is all that there was at v's
// revision.
func (v view) check(c backend.Clock) error {
	if c.Epoch != v.epoch {
		return backend.ErrOtherEpoch
	}
	err := c.Check(v.rev)
	if errors.Is(err, ErrFutureRevision) && v.rev <= v.current {
		return backend.ErrServerBehind
	}
	if errors.Is(err, ErrCompacted) && v.pin.lasts() {
		return nil
	}
	return err
}

// keys is the snapshot of the index that v reads from now, nil when it reads from the database.
func (v view) keys() *index.Tree {
	if v.snap != nil {
		return v.snap.Tree()
	}
	return v.tree
}

// viewAt resolves the revision asked for to a view of it. Errors: [ErrCompacted], [ErrFutureRevision].
func (s *Store) viewAt(revision int64) (view, error) {
	clock, keys := s.index.At(revision)
	v, err := newView(revision, clock)
	v.tree = keys
	return v, err
}

func newView(revision int64, clock backend.Clock) (view, error) {
	v := view{rev: revision, current: clock.Revision, epoch: clock.Epoch}
	if revision <= 0 {
		v.rev = v.current
		return v, nil
	}
	return v, clock.Check(revision)
}

// confirm returns when reads show everything that was acknowledged, by whichever replica, before the call: at once
// where there is only this one. Errors: ctx's, those of the backend.
func (s *Store) confirm(ctx context.Context) error { return s.peers.sync(ctx) }

// AwaitRevision returns when reads show revision, written by whichever replica; it asks the database nothing. It
// returns the current revision, with an error too. Errors: ctx's, [ErrClosed].
func (s *Store) AwaitRevision(ctx context.Context, revision int64) (current int64, err error) {
	if current = s.Revision(); current >= revision {
		return current, nil
	}
	current, reached := s.index.Await(ctx, s.ctx.Done(), revision)
	switch {
	case reached:
		return current, nil
	case ctx.Err() != nil:
		return current, ctx.Err()
	}
	return current, ErrClosed
}

// Range returns the rows of req's range at its revision. The answer is a snapshot of that revision, whatever is written
// meanwhile. Errors: [ErrCompacted], [ErrFutureRevision], those of the backend.
func (s *Store) Range(ctx context.Context, req *RangeRequest) (*RangeResult, error) {
	if !req.Serializable {
		if err := s.confirm(ctx); err != nil {
			return nil, err
		}
	}
	return s.readAgain(ctx, req)
}

// readAgain reads, and again where what it was to read has gone meanwhile.
func (s *Store) readAgain(ctx context.Context, req *RangeRequest) (res *RangeResult, err error) {
	if req.Revision > 0 {
		return s.read(ctx, req)
	}
	err = s.retryCompacted(ctx, func() error {
		res, err = s.read(ctx, req)
		return err
	})
	return res, err
}

// retryCompacted runs what reads the current revision, and again where a row was superseded, compacted and removed
// while it looked: the current revision is a newer one then, which another replica may know first, or which is about to
// be published.
func (s *Store) retryCompacted(ctx context.Context, read func() error) error {
	for tries := 1; ; tries++ {
		compacted := s.Compacted()
		err := read()
		switch {
		case !errors.Is(err, ErrCompacted):
			return err
		case s.Compacted() != compacted:
			continue
		case tries >= readTries:
			return err
		}
		if err := s.confirm(ctx); err != nil {
			return err
		}
	}
}

func (s *Store) read(ctx context.Context, req *RangeRequest) (*RangeResult, error) {
	if len(req.End) == 0 {
		if res, ok, err := s.get(ctx, req); ok || err != nil {
			return res, err
		}
	}
	sp := index.NewSpan(req.Key, req.End)
	if req.plain() && !sp.Empty {
		if res, ok, err := s.small(ctx, req, sp); ok || err != nil {
			return res, err
		}
	}
	v, err := s.viewAt(req.Revision)
	if err != nil {
		return nil, err
	}
	if sp.Empty {
		return &RangeResult{Revision: v.current}, nil
	}
	if v.tree == nil || !req.long(v.tree) {
		return s.ranged(ctx, req, sp, v)
	}
	if req.Revision <= 0 {
		v.tree = nil // those in line must not keep what each of them came to
	}
	turn, err := s.turns.takeOne(ctx)
	if err != nil {
		return nil, err
	}
	if req.Revision <= 0 {
		v, _ = s.viewAt(0)
	}
	res, err := s.ranged(turn.with(ctx), req, sp, v)
	if err != nil || !req.KeepTurn {
		turn.End()
		return res, err
	}
	res.Turn = turn
	return res, nil
}

func (s *Store) ranged(ctx context.Context, req *RangeRequest, sp index.Span, v view) (*RangeResult, error) {
	if req.plain() {
		return s.list(ctx, req, sp, v)
	}
	return s.sorted(ctx, req, sp, v)
}

// get serves one key from the index alone; ok is false when that cannot be done.
func (s *Store) get(ctx context.Context, req *RangeRequest) (_ *RangeResult, ok bool, _ error) {
	if req.filtered() || req.Target == SortValue {
		return nil, false, nil
	}
	it, known, clock := s.index.Look(index.KeyString(req.Key))
	if req.Revision > 0 {
		if err := clock.Check(req.Revision); err != nil {
			return nil, false, err
		}
	}
	switch {
	case !known:
		return nil, false, nil
	case it == nil:
		if req.Revision > 0 && req.Revision < clock.Revision {
			return nil, false, nil
		}
		return &RangeResult{Revision: clock.Revision}, true, nil
	case req.Revision > 0 && it.ModRevision > req.Revision:
		return nil, false, nil
	}
	res := &RangeResult{Count: 1, Revision: clock.Revision}
	if req.CountOnly {
		return res, true, nil
	}
	rows, err := s.rows(ctx, []*index.Item{it}, clock.Epoch, req)
	res.Rows = rows
	return res, true, err
}

// small serves a range of the current revision that turns out to hold few keys, under the index's lock.
func (s *Store) small(ctx context.Context, req *RangeRequest, sp index.Span) (_ *RangeResult, ok bool, _ error) {
	if req.CountOnly {
		n, clock, ok := s.index.CountAt(sp, req.Revision)
		if !ok {
			return nil, false, nil
		}
		return &RangeResult{Revision: clock.Revision, Count: n}, true, nil
	}
	items, clock, ok := s.index.Few(sp, req.Revision, walkLocked)
	if !ok {
		return nil, false, nil
	}
	res := &RangeResult{Revision: clock.Revision, Count: int64(len(items))}
	if req.Limit > 0 && res.Count > req.Limit {
		items, res.More = items[:req.Limit], true
	}
	rows, err := s.rows(ctx, items, clock.Epoch, req)
	res.Rows = rows
	return res, true, err
}

// list serves a range in key order.
func (s *Store) list(ctx context.Context, req *RangeRequest, sp index.Span, v view) (*RangeResult, error) {
	res := &RangeResult{Revision: v.current}
	var err error
	limit := req.Limit
	if req.CountOnly {
		res.Count, err = s.count(ctx, sp, v)
		return res, err
	}
	if limit <= 0 {
		limit = -1
	}
	var next index.Span
	next, res.More, err = s.scan(ctx, sp, v, limit, chunkSize{readChunk, heldBytes}, req, func(rows []*Row) error {
		if res.Rows == nil {
			res.Rows = rows
		} else {
			res.Rows = append(res.Rows, rows...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Count = int64(len(res.Rows))
	if res.More && !req.NoCount {
		res.Count, err = s.countPage(ctx, sp, v, next, res.Count)
	}
	return res, err
}

// scan hands the rows of the span at v's revision to f in chunks, at most limit in all (-1: no limit), and says what is
// left of the span.
func (s *Store) scan(
	ctx context.Context, sp index.Span, v view, limit int64, size chunkSize, req *RangeRequest, f func([]*Row) error,
) (index.Span, bool, error) {
	for {
		if err := ctx.Err(); err != nil { // memory alone never looks
			return sp, false, err
		}
		part := size
		if limit >= 0 {
			part.rows = int(min(int64(part.rows), limit))
		}
		rows, more, err := s.chunk(ctx, sp, v, part, req)
		if err != nil {
			return sp, false, err
		}
		if len(rows) > 0 {
			if err := f(rows); err != nil {
				return sp, false, err
			}
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
	if keys := v.keys(); keys != nil {
		if size.rows > longRead && !inTurn(ctx) && keys.Exceeds(sp, longRead) {
			turn, err := s.turns.takeOne(ctx)
			if err != nil {
				return nil, false, err
			}
			defer turn.End()
			ctx = turn.with(ctx)
		}
		items, more := keys.Walk(sp, size.rows)
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
			rows[i] = keyOnly(rows[i])
		}
	}
	return rows, more, nil
}

// fromDatabase is chunk without an index. If more is true though there is no more, it is because fewer rows than asked
// for have filled the chunk.
func (s *Store) fromDatabase(
	ctx context.Context, sp index.Span, v view, size chunkSize, keysOnly bool,
) (rows []Row, more bool, err error) {
	asking(ctx)
	rows, clock, err := s.backend.Range(ctx, backend.RangeQuery{
		Span: sp.Backend(), Revision: v.rev, Limit: size.rows + 1, Bytes: size.bytes, KeysOnly: keysOnly,
		Pin: v.pin.id(),
	})
	if err == nil {
		err = v.check(clock)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read at revision %d: %w", v.rev, err)
	}
	total := int64(0)
	for i := range rows {
		total += rows[i].Size()
	}
	switch {
	case len(rows) > size.rows:
		return rows[:size.rows], true, nil
	case total < size.bytes:
		return rows, false, nil
	case len(rows) < size.rows:
		return rows, true, nil
	}
	// As many as wanted, which may be all that the request wants: the result must say whether there are more.
	_, more, err = s.fromDatabase(ctx, sp.From(string(rows[len(rows)-1].Key)+"\x00"), v, chunkSize{0, heldBytes}, true)
	return rows, more, err
}
