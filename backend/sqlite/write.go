package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// tx holds the writing connection. Nobody else can write, so it needs no SQLite transaction before Commit.
type tx struct {
	b      *Backend
	loaded backend.Loaded
	ended  bool
}

// Begin implements [backend.Backend].
func (b *Backend) Begin(ctx context.Context, n backend.Needs) (_ backend.Tx, err error) {
	ctx, span := b.begin(ctx, "begin a write")
	defer func() { span.Fail(err); span.End() }()
	if err := b.acquireWriter(ctx); err != nil {
		return nil, err
	}
	t := &tx{b: b, loaded: backend.Loaded{Clock: *b.clock.Load()}}
	if err := b.writer.load(n, &t.loaded); err != nil {
		b.releaseWriter()
		return nil, b.translate("read what a transaction needs", err)
	}
	return t, nil
}

// load reads the live rows that n asks for at the clock's revision.
func (c *conn) load(n backend.Needs, to *backend.Loaded) error {
	if n.Import {
		var err error
		if to.Import, err = c.imported(); err != nil {
			return err
		}
	}
	revision := to.Clock.Revision
	var rows []backend.Row
	for _, key := range n.Keys {
		got, err := c.get(key, revision, false)
		if err != nil {
			return err
		}
		rows = append(rows, got...)
	}
	left := n.SpanLimit
	for _, s := range n.Spans {
		got, err := c.list(backend.RangeQuery{Span: s, Revision: revision, Limit: left + 1})
		if err != nil {
			return err
		}
		if left -= len(got); left < 0 {
			return backend.ErrTooManyRows
		}
		rows = append(rows, got...)
	}
	for _, lease := range n.LeaseKeys {
		got, err := c.attached(lease, revision, n.LeaseLimit+1-len(to.LeaseRows))
		if err != nil {
			return err
		}
		to.LeaseRows = append(to.LeaseRows, got...)
		if len(to.LeaseRows) > n.LeaseLimit && len(n.LeaseKeys) > 1 {
			return backend.ErrTooManyRows
		}
	}
	slices.SortFunc(rows, func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	to.Rows = slices.CompactFunc(rows, func(a, b backend.Row) bool { return bytes.Equal(a.Key, b.Key) })
	return nil
}

// attached returns up to limit live rows that are attached to the lease, without their values.
func (c *conn) attached(lease, revision int64, limit int) ([]backend.Row, error) {
	keys := map[string]struct{}{}
	err := c.each(context.Background(), leaseKeys, func(row []driver.Value) bool {
		key, _ := row[0].([]byte)
		keys[string(key)] = struct{}{}
		return true
	}, lease)
	if err != nil {
		return nil, err
	}
	var rows []backend.Row
	for key := range keys {
		if len(rows) == limit {
			break
		}
		got, err := c.get([]byte(key), revision, true)
		if err != nil {
			return nil, err
		}
		if len(got) == 1 && got[0].Lease == lease {
			rows = append(rows, got[0])
		}
	}
	return rows, nil
}

func (t *tx) Loaded() *backend.Loaded { return &t.loaded }

func (t *tx) Rollback() {
	if !t.ended {
		t.ended = true
		t.b.releaseWriter()
	}
}

func (t *tx) Commit(ctx context.Context, e *backend.Effects) error {
	if t.ended {
		return fmt.Errorf("commit: %w: the transaction has ended", backend.ErrUnavailable)
	}
	defer t.Rollback()
	clock := t.loaded.Clock
	if e.Revision != clock.Revision {
		if err := t.b.settings.Holds(e.Revision); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	next := clock
	next.Revision = e.Revision
	written := max(t.b.now(), t.b.written, e.Latest())
	if e.Compacted != 0 && (next.Compacted <= 0 || e.Compacted > next.Compacted) {
		next.Compacted = e.Compacted
	}
	err := t.b.writeTraced(t.b.tracer.Of(ctx), "commit", func(c *conn) error {
		if err := c.apply(e, written); err != nil {
			return err
		}
		if e.Auth != nil {
			if err := c.changeAuth(e.Auth); err != nil {
				return err
			}
		}
		if err := c.addTokens(e.Tokens, t.b.now()); err != nil {
			return err
		}
		n, err := c.run(moveClock, next.Revision, next.Compacted, clock.Revision, clock.Compacted, clock.Epoch)
		if err == nil && n != 1 { // another program has changed the database in spite of the lock
			err = t.b.abandonFile()
		}
		return err
	})
	if err != nil {
		return err
	}
	t.b.clock.Store(&next)
	t.b.written = written
	t.b.checkpoints.wrote(e)
	return nil
}

// apply writes everything except the clock in the open transaction. written is the time of the commit.
func (c *conn) apply(e *backend.Effects, written int64) error {
	at := timeOf(written)
	for i := range e.Rows {
		r := &e.Rows[i]
		if e.Dated {
			written, at = r.WrittenAt, timeOf(r.WrittenAt)
		}
		if err := c.insert(r, written, at); err != nil {
			return err
		}
	}
	for _, l := range e.Granted {
		if _, err := c.run(grantLease, l.ID, int64(l.TTL.Seconds())); err != nil {
			return err
		}
	}
	for _, id := range e.Ending {
		if _, err := c.run(endLease, id); err != nil {
			return err
		}
	}
	for _, id := range e.Revoked {
		if _, err := c.run(revokeLease, id); err != nil {
			return err
		}
	}
	for _, a := range e.Raised {
		if _, err := c.run(raiseAlarm, int64(a.Member), int64(a.Kind)); err != nil {
			return err
		}
	}
	for _, a := range e.Cleared {
		if _, err := c.run(clearAlarm, int64(a.Member), int64(a.Kind)); err != nil {
			return err
		}
	}
	return nil
}

// timeOf returns the time of a commit as a value of the database, which has NULL for 0.
func timeOf(written int64) driver.Value {
	if written == 0 {
		return nil
	}
	return written
}

// insert writes a row. at is written as the database has it, the same for all rows of a batch.
func (c *conn) insert(r *backend.Row, written int64, at driver.Value) error {
	if !valid(r.ModRevision, r.Ordinal) {
		return fmt.Errorf("%w: revision %d, row %d is beyond the numbers that there are", backend.ErrRejected,
			r.ModRevision, r.Ordinal)
	}
	var value driver.Value
	if !r.Deleted {
		value = notNil(r.Value)
	}
	_, err := c.run(insertRow, rowID(r.ModRevision, r.Ordinal), notNil(r.Key), r.CreateRevision, r.Version, r.Lease,
		r.PrevRevision, value, c.sums.Of(r, written), at)
	return err
}

// write runs f in a transaction on the writing connection, which the caller holds. It translates the error that it
// returns.
func (b *Backend) write(doing string, f func(*conn) error) error {
	return b.writeTraced(tracing.Span{}, doing, func(c *conn) error {
		if err := f(c); err != nil {
			return err
		}
		clock := b.clock.Load()
		n, err := c.run(nameCommit, clock.Revision, clock.Compacted, clock.Epoch)
		if err == nil && n != 1 { // as in Commit
			err = b.abandonFile()
		}
		return err
	})
}

// writeTraced is write within a span, for a transaction that gives itself an id.
func (b *Backend) writeTraced(within tracing.Span, doing string, f func(*conn) error) error {
	err := b.transact(within, doing, f)
	if err != nil {
		b.reserve.full(err)
	}
	return err
}

func (b *Backend) transact(within tracing.Span, doing string, f func(*conn) error) error {
	c := b.writer
	if _, err := c.run(begin); err != nil {
		return b.translate(doing, err)
	}
	rows := within.Child("write rows")
	rows.SQL(system, statements[insertRow])
	err := f(c)
	rows.Fail(err)
	rows.End()
	if err != nil {
		return errors.Join(b.translate(doing, err), b.undo(doing))
	}
	err = c.commit(within)
	switch {
	case err == nil:
		return nil
	case isCode(err, sqlite3.ErrFull), isCode(err, sqlite3.ErrBusy), isCode(err, sqlite3.ErrConstraint):
		// Certainly not committed: there was no room for the last frame, which is the one that commits, or it was never
		// tried.
		return errors.Join(b.translate(doing, err), b.undo(doing))
	case isDamagedPage(err): // nothing was written behind the gap in a log that was cut off
		err = fmt.Errorf("%s: %w", doing, errLogCutOff)
		b.refuseWrites(err)
		return errors.Join(err, b.undo(doing))
	}
	return b.markBroken(doing, err)
}

// writeLazily is write for changes that a crash of the machine may lose: it does not sync and does not wait for the
// disk. The changes become durable with the next commit, whose sync covers all of the WAL before it.
func (b *Backend) writeLazily(doing string, f func(*conn) error) error {
	if b.synchronous() == "OFF" {
		return b.write(doing, f)
	}
	if err := b.writer.exec("PRAGMA synchronous = NORMAL"); err != nil {
		return b.translate(doing, err)
	}
	err := b.write(doing, f)
	if restored := b.writer.exec("PRAGMA synchronous = " + b.synchronous()); restored != nil {
		return errors.Join(err, b.markBroken(doing+": sync commits again", restored))
	}
	return err
}

// undo rolls back the open transaction, if SQLite has not done so already.
func (b *Backend) undo(doing string) error {
	if b.writer.c.AutoCommit() {
		return nil
	}
	if _, err := b.writer.run(rollback); err != nil && !b.writer.c.AutoCommit() {
		return b.markBroken(doing+": roll back", err)
	}
	return nil
}
