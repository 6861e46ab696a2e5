package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
)

const (
	// corruptRows bounds how many corrupt rows are remembered, so that each raises the alarm only once.
	corruptRows = 10_000
	// corruptRetry is how long to wait before the alarm is raised again after that failed.
	corruptRetry = time.Second
)

// corruption notices that the database has returned something corrupt. It raises the CORRUPT alarm, which stops writes,
// once for each row: an operator who has cleared the alarm can then overwrite or delete the key, although others still
// read it in vain.
type corruption struct {
	s    *Store
	last atomic.Pointer[error]
	mu   sync.Mutex
	seen map[string]struct{}
}

// Corruption returns the last error by which the database turned out to be corrupt, nil if there was none since the
// start.
func (s *Store) Corruption() error {
	if err := s.corruption.last.Load(); err != nil {
		return *err
	}
	return nil
}

// noticed returns err, after noticing what it says.
func (c *corruption) noticed(err error) error {
	if err == nil || !errors.Is(err, backend.ErrCorrupt) {
		return err
	}
	c.last.Store(&err)
	what := "" // all that is not about one row
	if row, ok := errors.AsType[*backend.CorruptRow](err); ok {
		what = fmt.Sprint(row.ID, string(row.Key))
	}
	c.mu.Lock()
	_, known := c.seen[what]
	if !known && len(c.seen) < corruptRows {
		if c.seen == nil {
			c.seen = map[string]struct{}{}
		}
		c.seen[what] = struct{}{}
	}
	c.mu.Unlock()
	if !known {
		c.s.cfg.Logger.Error("the database is corrupt: the CORRUPT alarm stops all writes", "error", err)
		c.s.background.start(c.raise)
	}
	return err
}

// mended makes the next damage that is not about one row raise the alarm again: a verification has found none.
func (c *corruption) mended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, "")
}

// raise raises the alarm, however long that takes.
func (c *corruption) raise() {
	var outage loglimit.Outage
	for {
		err := c.s.RaiseAlarm(c.s.ctx, Alarm{Member: c.s.settings.MemberID, Kind: AlarmCorrupt})
		if err == nil || c.s.ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrTooManyAlarms) {
			return
		}
		if outage.Failed() {
			c.s.cfg.Logger.Warn("the CORRUPT alarm is not raised yet", "error", err)
		}
		select {
		case <-time.After(corruptRetry):
		case <-c.s.ctx.Done():
			return
		}
	}
}

// guarded returns b with its errors noticed.
func (c *corruption) guarded(b backend.Backend) backend.Backend {
	if shared, ok := b.(backend.Shared); ok {
		return &sharedGuard{shared, guard{b, c}}
	}
	return &guard{b, c}
}

// guard notices the errors of a backend, and waits for its verification before a read relies on its indexes.
type guard struct {
	backend.Backend
	corruption *corruption
}

func (g *guard) Range(
	ctx context.Context, q backend.RangeQuery,
) (rows []backend.Row, clock backend.Clock, err error) {
	err = g.corruption.s.verification.during(ctx, func() (err error) {
		rows, clock, err = g.Backend.Range(ctx, q)
		return err
	})
	return rows, clock, g.corruption.noticed(err)
}

func (g *guard) Count(ctx context.Context, q backend.RangeQuery) (n int64, clock backend.Clock, err error) {
	err = g.corruption.s.verification.during(ctx, func() (err error) {
		n, clock, err = g.Backend.Count(ctx, q)
		return err
	})
	return n, clock, g.corruption.noticed(err)
}

func (g *guard) Rows(ctx context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error) {
	rows, clock, err := g.Backend.Rows(ctx, ids, bytes)
	return rows, clock, g.corruption.noticed(err)
}

func (g *guard) History(ctx context.Context, q backend.HistoryQuery) (h backend.History, err error) {
	err = g.corruption.s.verification.during(ctx, func() (err error) {
		h, err = g.Backend.History(ctx, q)
		return err
	})
	return h, g.corruption.noticed(err)
}

func (g *guard) Digests(ctx context.Context, q backend.DigestQuery) (d backend.Digests, err error) {
	err = g.corruption.s.verification.during(ctx, func() (err error) {
		d, err = g.Backend.Digests(ctx, q)
		return err
	})
	return d, g.corruption.noticed(err)
}

// Purge waits for the verification: a tombstone goes only after what it supersedes, which an index finds. As long as
// that takes, it deletes nothing, as if all rows were still being read.
func (g *guard) Purge(ctx context.Context, limit int, until int64) (backend.PurgeResult, error) {
	switch _, err := g.corruption.s.verification.wait(ctx); {
	case errors.Is(err, errUnverified):
		return backend.PurgeResult{}, nil
	case err != nil:
		return backend.PurgeResult{}, fmt.Errorf("purge: %w", err)
	}
	return g.Backend.Purge(ctx, limit, until)
}

func (g *guard) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if err := g.await(ctx, n); err != nil {
		return nil, err
	}
	tx, err := g.Backend.Begin(ctx, n)
	if err != nil {
		return nil, g.corruption.noticed(err)
	}
	return guardTx{tx, g.corruption}, nil
}

// await waits for the verification if a write must read rows, because the index in memory is not complete.
func (g *guard) await(ctx context.Context, n backend.Needs) error {
	if len(n.Keys)+len(n.Spans)+len(n.LeaseKeys) == 0 {
		return nil
	}
	if _, err := g.corruption.s.verification.wait(ctx); err != nil {
		return fmt.Errorf("begin a write: %w", err)
	}
	return nil
}

// guardTx notices the error of a commit, because a write reads indexes, too.
type guardTx struct {
	backend.Tx
	corruption *corruption
}

func (g guardTx) Commit(ctx context.Context, e *backend.Effects) error {
	return g.corruption.noticed(g.Tx.Commit(ctx, e))
}

// sharedGuard is a guard of a [backend.Shared].
type sharedGuard struct {
	backend.Shared
	guard guard
}

func (g *sharedGuard) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	return g.guard.Range(ctx, q)
}

func (g *sharedGuard) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	return g.guard.Count(ctx, q)
}

func (g *sharedGuard) Rows(
	ctx context.Context, ids []backend.RowID, bytes int64,
) ([]backend.Row, backend.Clock, error) {
	return g.guard.Rows(ctx, ids, bytes)
}

func (g *sharedGuard) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	return g.guard.History(ctx, q)
}

func (g *sharedGuard) Digests(ctx context.Context, q backend.DigestQuery) (backend.Digests, error) {
	return g.guard.Digests(ctx, q)
}

func (g *sharedGuard) Purge(ctx context.Context, limit int, until int64) (backend.PurgeResult, error) {
	return g.guard.Purge(ctx, limit, until)
}

func (g *sharedGuard) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if err := g.guard.await(ctx, n); err != nil {
		return nil, err
	}
	tx, err := g.Shared.Begin(ctx, n)
	if err != nil {
		return nil, g.guard.corruption.noticed(err)
	}
	return sharedGuardTx{tx.(backend.SharedTx), g.guard.corruption}, nil
}

func (g *sharedGuard) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	t, err := g.Shared.Tail(ctx, q)
	return t, g.guard.corruption.noticed(err)
}

// sharedGuardTx is the guardTx of a sharedGuard.
type sharedGuardTx struct {
	backend.SharedTx
	corruption *corruption
}

func (g sharedGuardTx) Commit(ctx context.Context, e *backend.Effects) error {
	return g.corruption.noticed(g.SharedTx.Commit(ctx, e))
}

func (g sharedGuardTx) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	t, err := g.SharedTx.Tail(ctx, q)
	return t, g.corruption.noticed(err)
}

// isCorruptRow reports whether err is about a single row, in a database that otherwise works.
func isCorruptRow(err error) bool {
	_, ok := errors.AsType[*backend.CorruptRow](err)
	return ok
}
