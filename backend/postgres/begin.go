package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
)

// Begin implements [backend.Backend]. It takes one round trip: the lock, followed by the statements that n asks for,
// each with its own snapshot, which is taken after the lock.
func (b *Backend) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if err := b.acquireWriter(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	var err error
	for range 3 {
		var t *tx
		if t, err = b.begin(limited, &n); err == nil {
			return t, nil
		}
		if limited.Err() != nil || refused(err) && !transient(err) ||
			errors.Is(err, backend.ErrTooManyRows) || errors.Is(err, backend.ErrNoClock) ||
			errors.Is(err, backend.ErrCorrupt) {
			break
		}
	}
	b.releaseWriter()
	return nil, b.translate(ctx, "begin a write", err)
}

// begin makes one attempt.
func (b *Backend) begin(ctx context.Context, n *backend.Needs) (*tx, error) {
	c, err := b.writerConn(ctx)
	if err != nil {
		if !errors.Is(err, errBusy) {
			b.resetPools()
		}
		return nil, err
	}
	if err := b.durable(); err != nil {
		return nil, err
	}
	t := &tx{b: b, c: c}
	var l loader
	l.queue(&b.features, n, t)
	err = l.run(ctx, c.Conn())
	inVain := !l.locked && !linkOf(c.Conn()).cancelled && timedOut(err)
	if err == nil && linkOf(c.Conn()).cancelled { // the cancel request must not hit the COMMIT
		err = context.Cause(ctx)
	}
	if err == nil {
		err = found(t.loaded.Clock)
	}
	if err != nil {
		settle(c, err)
		b.abandon(err)
		if inVain {
			err = fmt.Errorf("begin a write: %w: %w: %w", backend.ErrClockHeld, backend.ErrUnavailable, err)
		}
		return nil, err
	}
	if l.tail != nil {
		t.loaded.Tail = l.tail.tail()
	}
	slices.SortFunc(t.loaded.Rows, func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	t.loaded.Rows = slices.CompactFunc(t.loaded.Rows, func(a, b backend.Row) bool { return bytes.Equal(a.Key, b.Key) })
	return t, nil
}

// loader is the first round trip of a write: statements and the functions that process their rows, in the same order.
type loader struct {
	batch  pgx.Batch
	each   []func(*scanner) error // nil: the statement returns nothing that matters
	tail   *tailReader            // nil when not requested
	tag    string                 // of the last such statement
	locked bool                   // the clock has been read, so it is held
}

func (l *loader) add(each func(*scanner) error, sql string, args ...any) {
	l.batch.Queue(sql, args...)
	l.each = append(l.each, each)
}

func (l *loader) queue(f *features, n *backend.Needs, t *tx) {
	to := &t.loaded
	l.add(nil, beginSQL)
	l.add(nil, f.bounds)
	l.add(func(s *scanner) error {
		to.Clock, t.origin, t.time, l.locked = s.clock(), s.origin(), s.integer(), true
		return nil
	}, f.lock)
	if n.Import {
		l.add(func(s *scanner) error { to.Import = importRow(s); return nil }, readImport)
	}
	if n.Tail != nil {
		l.tail = newTailReader(*n.Tail)
		l.add(l.tail.scan, l.tail.sql(f), l.tail.args()...)
	}
	row := func(s *scanner) error {
		var r backend.Row
		if s.row(&r, true); !r.Deleted {
			to.Rows = append(to.Rows, r)
		}
		return nil
	}
	if len(n.Keys) > 0 {
		l.add(row, loadKeys, allIndexed(n.Keys))
	}
	left := n.SpanLimit
	for _, s := range n.Spans {
		form, span := shape(wider(s))
		exact := !long(s.Start) && !long(s.End)
		l.add(func(sc *scanner) error {
			before := len(to.Rows)
			if err := row(sc); err != nil || len(to.Rows) == before {
				return err
			}
			if left--; left < 0 {
				return backend.ErrTooManyRows
			}
			if !exact && !inSpan(to.Rows[before].Key, s) {
				to.Rows = to.Rows[:before]
			}
			return nil
		}, loadSpanSQL[form], append([]any{int64(math.MaxInt64), int64(n.SpanLimit) + 1}, span...)...)
	}
	if len(n.LeaseKeys) > 0 {
		left := n.LeaseLimit + 1
		l.add(func(s *scanner) error {
			if left--; left == 0 && len(n.LeaseKeys) > 1 {
				return backend.ErrTooManyRows
			}
			to.LeaseRows = append(to.LeaseRows, backend.Row{})
			s.row(&to.LeaseRows[len(to.LeaseRows)-1], false)
			return nil
		}, loadLeaseKeys, n.LeaseKeys, int64(left))
	}
	if len(n.Leases) > 0 {
		l.add(func(s *scanner) error {
			to.Leases = append(to.Leases, leaseState(s))
			return nil
		}, lockLeases, n.Leases)
	}
}

// run sends all statements and reads all results.
func (l *loader) run(ctx context.Context, c *pgx.Conn) (err error) {
	br := c.SendBatch(ctx, &l.batch)
	for _, each := range l.each {
		if each == nil {
			var tag pgconn.CommandTag
			tag, err = br.Exec()
			l.tag = tag.String()
		} else {
			var rows pgx.Rows
			if rows, err = br.Query(); err == nil {
				err = scanRows(rows, each)
			}
		}
		if err != nil {
			break
		}
	}
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	return err
}
