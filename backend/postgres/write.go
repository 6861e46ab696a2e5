package postgres

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// tx has the writing connection, and on it a transaction that holds the clock's lock.
type tx struct {
	b      *Backend
	c      *pgxpool.Conn
	loaded backend.Loaded
	ended  bool
}

// Begin implements [backend.Backend]. It is one round trip: the lock, and behind it the statements that n asks for, each with a
// snapshot of its own, which is younger than the lock.
func (b *Backend) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if err := b.takeTurn(ctx); err != nil {
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
		if limited.Err() != nil || refused(err) && !transient(err) || err == backend.ErrTooManyRows { //nolint:errorlint // is not wrapped
			break
		}
	}
	b.giveTurn()
	return nil, b.translate(ctx, "begin a write", err)
}

// takeTurn waits for the writing connection; whoever took it calls giveTurn.
func (b *Backend) takeTurn(ctx context.Context) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return backend.ErrClosed
	}
	if err := b.usable(ctx); err != nil {
		b.giveTurn()
		return err
	}
	return nil
}

func (b *Backend) giveTurn() { <-b.turn }

// writerConn returns the writing connection, a new one if need be. The caller has the turn.
func (b *Backend) writerConn(ctx context.Context) (*pgxpool.Conn, error) {
	if b.writer != nil && !b.writer.Conn().IsClosed() {
		return b.writer, nil
	}
	b.dropWriter(false)
	c, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	b.writer = c
	return c, nil
}

// dropWriter gives the writing connection up; all others with it when it failed: where one broke, others have, or lead to
// another server than a new one would.
func (b *Backend) dropWriter(failed bool) {
	if b.writer != nil {
		if failed {
			ctx, cancel := context.WithTimeout(context.Background(), grace)
			_ = b.writer.Conn().Close(ctx)
			cancel()
		}
		b.writer.Release()
		b.writer = nil
	}
	if failed {
		b.pool.Reset()
	}
}

// begin tries once.
func (b *Backend) begin(ctx context.Context, n *backend.Needs) (*tx, error) {
	c, err := b.writerConn(ctx)
	if err != nil {
		b.pool.Reset()
		return nil, err
	}
	t := &tx{b: b, c: c}
	var l loader
	l.queue(&b.features, n, &t.loaded)
	err = l.run(ctx, c.Conn())
	if err != nil {
		b.abandon(err)
		return nil, err
	}
	slices.SortFunc(t.loaded.Rows, func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	t.loaded.Rows = slices.CompactFunc(t.loaded.Rows, func(a, b backend.Row) bool { return bytes.Equal(a.Key, b.Key) })
	return t, nil
}

// abandon ends a transaction that has failed or is not wanted any more, without giving back the turn.
func (b *Backend) abandon(cause error) {
	c := b.writer.Conn()
	e := pgError(cause)
	switch {
	case c.IsClosed(), e != nil && (!refused(cause) || e.Code == codeReadOnly):
		b.dropWriter(true)
	case c.PgConn().TxStatus() == 'I':
	default:
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if _, err := c.Exec(ctx, "ROLLBACK"); err != nil {
			b.dropWriter(true)
		}
	}
}

// loader is the first round trip of a write: statements and what to do with their rows, in the same order.
type loader struct {
	batch pgx.Batch
	each  []func(*scanner) error // nil: the statement returns nothing that matters
}

func (l *loader) add(each func(*scanner) error, sql string, args ...any) {
	l.batch.Queue(sql, args...)
	l.each = append(l.each, each)
}

func (l *loader) queue(f *features, n *backend.Needs, to *backend.Loaded) {
	l.add(nil, beginSQL)
	l.add(nil, f.bounds)
	l.add(func(s *scanner) error { to.Clock = s.clock(); return nil }, f.lock)
	if n.Tail != nil {
		t := newTailReader(*n.Tail)
		l.add(func(s *scanner) error {
			err := t.scan(s)
			to.Tail = t.tail()
			return err
		}, t.sql(), t.args()...)
	}
	row := func(s *scanner) error {
		to.Rows = append(to.Rows, backend.Row{})
		s.row(&to.Rows[len(to.Rows)-1], true)
		return nil
	}
	if len(n.Keys) > 0 {
		l.add(row, loadKeys, n.Keys)
	}
	left := n.SpanLimit
	for _, s := range n.Spans {
		form, span := shape(s)
		l.add(func(s *scanner) error {
			if left--; left < 0 {
				return backend.ErrTooManyRows
			}
			return row(s)
		}, loadSpanSQL[form], append([]any{int64(math.MaxInt64), int64(n.SpanLimit) + 1}, span...)...)
	}
	if len(n.LeaseKeys) > 0 {
		l.add(row, loadLeaseKeys, n.LeaseKeys)
	}
	if len(n.Leases) > 0 {
		l.add(func(s *scanner) error {
			to.Leases = append(to.Leases, leaseState(s))
			return nil
		}, lockLeases, n.Leases)
	}
}

// run sends all and reads all.
func (l *loader) run(ctx context.Context, c *pgx.Conn) (err error) {
	br := c.SendBatch(ctx, &l.batch)
	for _, each := range l.each {
		if each == nil {
			_, err = br.Exec()
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

func (t *tx) Loaded() *backend.Loaded { return &t.loaded }

// Rollback implements [backend.Tx].
func (t *tx) Rollback() {
	if t.end() {
		t.b.abandon(nil)
		t.b.giveTurn()
	}
}

func (t *tx) end() bool {
	ended := t.ended
	t.ended = true
	return !ended
}

// Commit implements [backend.Tx]. It is one round trip that ends with COMMIT.
func (t *tx) Commit(_ context.Context, e *backend.Effects) error {
	if !t.end() {
		return fmt.Errorf("commit: %w: the transaction has ended", backend.ErrUnavailable)
	}
	defer t.b.giveTurn()
	if err := t.check(e); err != nil {
		t.b.abandon(nil)
		return err
	}
	var batch pgx.Batch
	t.queue(&batch, e)
	if err := t.send(&batch); err != nil {
		return err
	}
	t.b.grown(e.Revision)
	return nil
}

// check refuses what the database would refuse with less clear words.
func (t *tx) check(e *backend.Effects) error {
	for i := range e.Rows {
		if n := len(e.Rows[i].Key); n > maxKey {
			return fmt.Errorf("commit: %w: a key of %d bytes, Postgres can index keys of up to %d", backend.ErrRejected, n, maxKey)
		}
	}
	return nil
}

func (t *tx) queue(batch *pgx.Batch, e *backend.Effects) {
	var size int64
	if len(e.Rows) > 0 {
		size = t.b.insert.queue(batch, e)
	}
	if len(e.Revoked) > 0 {
		batch.Queue(deleteLeases, e.Revoked)
	}
	if len(e.Granted) > 0 {
		ids, ttls := make([]int64, len(e.Granted)), make([]int64, len(e.Granted))
		for i, l := range e.Granted {
			ids[i], ttls[i] = l.ID, int64(l.TTL/time.Second)
		}
		batch.Queue(insertLeases, ids, ttls)
	}
	queueAlarms(batch, insertAlarms, e.Raised)
	queueAlarms(batch, deleteAlarms, e.Cleared)
	compacted := t.loaded.Clock.Compacted
	if e.Compacted != 0 {
		compacted = e.Compacted
	}
	changed := int64(index(len(e.Raised)+len(e.Cleared) > 0))
	batch.Queue(moveClock, e.Revision, compacted, changed, size, e.Batch)
	// The COMMIT itself must not run into the statement's timeout while it waits for a standby.
	if t.b.features.notify != "" && !e.Quiet {
		batch.Queue(t.b.features.notify, t.b.features.channel, payload(t.b.settings.MemberID, e.Revision))
	} else {
		batch.Queue(t.b.features.unbound)
	}
	batch.Queue("COMMIT")
}

func queueAlarms(batch *pgx.Batch, sql string, alarms []backend.Alarm) {
	if len(alarms) == 0 {
		return
	}
	members, kinds := make([]int64, len(alarms)), make([]int32, len(alarms))
	for i, a := range alarms {
		members[i], kinds[i] = int64(a.Member), a.Kind
	}
	batch.Queue(sql, members, kinds)
}

// send sends what ends with a COMMIT and finds out what became of it. No context ends it, since one that did would have to cancel
// it or leave it alone; after commitTimeout the connection is closed instead, which the server does not notice before it is done.
func (t *tx) send(batch *pgx.Batch) error {
	c := t.c.Conn()
	known := linkOf(c)
	known.warning.Store(nil)
	nc := c.PgConn().Conn()
	timer := time.AfterFunc(t.b.commitTimeout, func() { _ = nc.Close() })
	tag, err := finish(c, batch)
	timer.Stop()
	warning := known.warning.Load()
	switch {
	case err == nil && tag == "COMMIT" && warning == nil:
		return nil
	case err == nil && tag == "COMMIT":
		err = fmt.Errorf("the server answers COMMIT with a warning: %s", warning.Message)
	case err == nil: // ROLLBACK: the transaction had failed before
		t.b.abandon(nil)
		return fmt.Errorf("commit: %w: the server answers %s", backend.ErrUnavailable, tag)
	case refused(err):
		t.b.abandon(err)
		return fmt.Errorf("commit: %w: %w", meaning(err), err)
	case lost(err):
		t.b.dropWriter(true)
		return fmt.Errorf("commit: %w: %w", backend.ErrUnavailable, err)
	}
	t.b.dropWriter(true)
	return fmt.Errorf("commit: %w: %w", backend.ErrUnknownOutcome, err)
}

// lost says that the server ended the transaction because it was idle for too long, so before the COMMIT was sent.
func lost(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeIdleInTx || e.Code == codeTxTimeout)
}

// finish runs the batch and returns the tag of its last statement.
func finish(c *pgx.Conn, batch *pgx.Batch) (tag string, err error) {
	br := c.SendBatch(context.Background(), batch)
	for range batch.Len() {
		ct, err := br.Exec()
		if err != nil {
			_ = br.Close()
			return "", err
		}
		tag = ct.String()
	}
	return tag, br.Close()
}
