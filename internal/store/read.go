package store

import (
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

const (
	// walkLocked is how many items a read may walk under the index's lock; beyond it, the read takes a snapshot
	// instead.
	walkLocked = 256
	// readChunk is how many rows one statement reads from the database.
	readChunk = 1000
	// readTries bounds how often a read of the current revision starts over because a row it needed was removed.
	readTries = 5
)

// view is the source of the rows of a read at one revision: a snapshot of the index, the index's current rows with the
// changes since undone, or the database.
type view struct {
	rev     int64
	current int64 // the store's revision when the view was made
	tree    *index.Tree
	snap    *index.Snapshot // replaces the tree where a client may take its time
	pin     *pin            // keeps the rows of rev even if it is compacted; nil for short reads

	epoch int64
}

// check returns nil if a read in the snapshot of clock c, made under the pin's id, saw every row at v's revision.
// Otherwise it returns why not.
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

// keys returns the snapshot of the index that v can read from at this moment, nil if there is none.
func (v view) keys() *index.Tree {
	if v.snap != nil {
		return v.snap.Tree()
	}
	return v.tree
}

// viewAt returns a view of the requested revision, of the current one if revision <= 0. Errors: [ErrCompacted],
// [ErrFutureRevision].
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

// confirm returns once reads show everything that any replica acknowledged before the call. A store that is alone
// returns at once. Errors: ctx's, those of the backend.
func (s *Store) confirm(ctx context.Context) error { return s.peers.sync(ctx) }

// AwaitRevision returns once reads show revision, whichever replica wrote it. It does not query the database. It
// returns the current revision, also with an error. Errors: ctx's, [ErrClosed].
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

// Range returns the rows of req's range at its revision. The result is a snapshot of that revision, whatever is written
// during the read. Errors: [ErrCompacted], [ErrFutureRevision], those of [auth.State.CanRead], those of the backend.
func (s *Store) Range(ctx context.Context, req *RangeRequest) (*RangeResult, error) {
	state, err := s.admit(ctx, req.Serializable)
	if err != nil {
		return nil, err
	}
	if err := mayRead(ctx, state, req.Key, req.End); err != nil {
		return nil, err
	}
	res, err := s.readAgain(ctx, req)
	if now := s.Auth(); err == nil && now != state {
		if err = mayRead(ctx, now, req.Key, req.End); err != nil {
			res.Permit.End()
			return nil, err
		}
	}
	if span := s.cfg.Tracer.Of(ctx); span.On() && err == nil {
		span.Number(tracing.Revision, res.Revision)
		span.Number(tracing.Rows, int64(len(res.Rows)))
	}
	return res, err
}

// readAgain reads, and retries if a row that a read of the current revision needs was removed in the meantime.
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

// retryCompacted runs a read of the current revision, and retries it if a row was superseded, compacted and removed
// during the read. In that case the current revision is a newer one, which another replica may know first, or which is
// about to be published.
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
		if res, ok, err := s.get(ctx, req, false); ok || err != nil {
			return res, err
		}
	}
	sp := index.NewSpan(req.Key, req.End)
	if sp.Single {
		return s.readKey(ctx, req, sp)
	}
	if req.CountOnly {
		return s.ranged(ctx, req, sp)
	}
	r := s.reserving(ctx, req.Copies)
	r.asMessage(req.KeepPermit)
	for reading := r.with(ctx); ; {
		res, err := s.ranged(reading, req, sp)
		if err == nil {
			res.Permit, err = r.encode(ctx, res.Permit, req.KeepPermit)
			return res, err
		}
		if err = r.retry(ctx, err); err != nil {
			return nil, err
		}
	}
}

// ranged serves a range, with a permit if it is long.
func (s *Store) ranged(ctx context.Context, req *RangeRequest, sp index.Span) (*RangeResult, error) {
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
	if !s.long(req, sp, v) {
		return s.rangedAt(ctx, req, sp, v)
	}
	bytes := s.expected(req, sp, v) * s.expectedRow(req.KeysOnly) * max(1, req.Copies)
	if req.Revision <= 0 {
		v.tree = nil // reads that wait must not hold the snapshots that they began with
	}
	permit, err := s.admission.acquireOnce(ctx, bytes)
	if err != nil {
		return nil, err
	}
	if req.Revision <= 0 {
		v, _ = s.viewAt(0)
	}
	res, err := s.rangedAt(permit.with(ctx), req, sp, v)
	if err != nil || !req.KeepPermit {
		permit.End()
		return res, err
	}
	res.Permit = permit
	return res, nil
}

func (s *Store) rangedAt(ctx context.Context, req *RangeRequest, sp index.Span, v view) (*RangeResult, error) {
	if req.plain() {
		return s.list(ctx, req, sp, v)
	}
	return s.sorted(ctx, req, sp, v)
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
	items, clock, ok := s.index.WalkAt(sp, req.Revision, walkLocked)
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
	reservationOf(ctx).addRows(s.expected(req, sp, v))
	var next index.Span
	next, res.More, err = s.scan(ctx, sp, v, limit, chunkSize{readChunk, heldBytes}, req, func(read readPart) error {
		rows, _, err := read(ctx)
		if res.Rows == nil {
			res.Rows = rows
		} else {
			res.Rows = append(res.Rows, rows...)
		}
		return err
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

// expectedRow returns about how many bytes a row of a result has.
func (s *Store) expectedRow(keysOnly bool) int64 {
	const key = 128 // and the numbers
	if keysOnly {
		return key
	}
	return key + s.index.AverageValue()
}

// expected returns about how many rows a list returns.
func (s *Store) expected(req *RangeRequest, sp index.Span, v view) (rows int64) {
	if sp.Single {
		return 1
	}
	rows, ok := s.countInMemory(sp, v)
	if !ok {
		rows = s.index.Within(req.Key, req.End)
	}
	if req.Limit > 0 {
		rows = min(rows, req.Limit)
	}
	return rows
}
