package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// tx holds the writing connection and, on it, a transaction that holds the clock's lock.
type tx struct {
	b      *Backend
	c      *pgxpool.Conn
	loaded backend.Loaded
	origin backend.Origin // of the answer that contained the clock
	time   int64          // of the commit, in milliseconds since 1970
	ended  bool
}

func (t *tx) Loaded() *backend.Loaded { return &t.loaded }

// Tail implements [backend.SharedTx].
func (t *tx) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	if t.ended {
		return backend.Tail{}, fmt.Errorf("read the tail: %w: the transaction has ended", backend.ErrUnavailable)
	}
	limited, cancel := context.WithTimeout(ctx, lockedTimeout)
	defer cancel()
	r := newTailReader(q)
	err := scan(limited, t.c.Conn(), r.scan, r.sql(&t.b.features), r.args())
	if err == nil && linkOf(t.c.Conn()).cancelled { // the cancel request must not hit the COMMIT
		err = fmt.Errorf("%w: the context ended meanwhile", backend.ErrUnavailable)
	}
	if err != nil {
		return backend.Tail{}, t.b.translate(ctx, "read the tail", err)
	}
	if linkOf(t.c.Conn()).cancelled { // the cancel request must not hit the COMMIT
		return backend.Tail{}, fmt.Errorf("read the tail: %w: it took too long", backend.ErrUnavailable)
	}
	return r.tail(), nil
}

// Rollback implements [backend.Tx].
func (t *tx) Rollback() {
	if t.end() {
		t.b.abandon(nil)
		t.b.releaseWriter()
	}
}

func (t *tx) end() bool {
	ended := t.ended
	t.ended = true
	return !ended
}

// Commit implements [backend.Tx]. It takes one round trip that ends with COMMIT.
func (t *tx) Commit(ctx context.Context, e *backend.Effects) error {
	if !t.end() {
		return fmt.Errorf("commit: %w: the transaction has ended", backend.ErrUnavailable)
	}
	defer t.b.releaseWriter()
	if e.Revision != t.loaded.Clock.Revision {
		if err := t.b.settings.Holds(e.Revision); err != nil {
			err = fmt.Errorf("commit: %w", err)
			t.b.abandon(err)
			return err
		}
	}
	var batch pgx.Batch
	t.queue(&batch, e)
	if err := t.send(t.b.tracer.Detached(ctx), &batch); err != nil {
		return err
	}
	t.b.grown(e.Revision)
	return nil
}

// change commits one statement.
func (t *tx) change(ctx context.Context, sql string, args ...any) error {
	t.end()
	defer t.b.releaseWriter()
	var batch pgx.Batch
	batch.Queue(sql, args...)
	t.queueCommit(&batch)
	return t.send(t.b.tracer.Detached(ctx), &batch)
}

func (t *tx) queue(batch *pgx.Batch, e *backend.Effects) {
	var size int64
	if len(e.Rows) > 0 {
		size = t.b.insert.queue(batch, e, t.time)
	}
	if len(e.Ending) > 0 {
		batch.Queue(endLeases, e.Ending)
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
	if e.Auth != nil {
		queueAuth(batch, e.Auth)
	}
	queueTokens(batch, e.Tokens)
	changed := int64(index(len(e.Raised)+len(e.Cleared) > 0 || e.Auth != nil))
	// Leases alone do not move the clock: an update would leave row versions that the order by turn does not
	// distinguish. The lock is enough to have the COMMIT synced and acknowledged like any other.
	if locked := t.loaded.Clock.Revision; e.Revision != locked || e.Compacted != 0 || changed != 0 {
		batch.Queue(moveClock, e.Revision, e.Compacted, changed, size, e.Batch, max(t.time, e.Latest()), locked)
	}
	t.queueCommit(batch)
}

func (t *tx) queueCommit(batch *pgx.Batch) {
	// The COMMIT itself must not run into the statement timeout while it waits for a standby.
	batch.Queue(t.b.features.unbound)
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

// send sends a batch that ends with a COMMIT and determines its outcome. ctx must not end: a context that ends would
// have to cancel the COMMIT or abandon it. After commitTimeout, send closes the connection instead, which the
// server does not notice before it is done.
func (t *tx) send(ctx context.Context, batch *pgx.Batch) error {
	c := t.c.Conn()
	known := linkOf(c)
	known.warning.Store(nil)
	known.committing.Store(true)
	defer known.committing.Store(false)
	nc := c.PgConn().Conn()
	began := time.Now()
	timer := time.AfterFunc(t.b.commitTimeout, func() { _ = nc.Close() })
	tag, err := finish(ctx, c, batch)
	timer.Stop()
	warning := known.warning.Load()
	switch {
	case err == nil && tag == "COMMIT" && warning == nil:
		t.b.servers.acknowledged(t.origin, began)
		return nil
	case err == nil && tag == "COMMIT":
		err = fmt.Errorf("the server answers COMMIT with a warning: %s", warning.Message)
	case err == nil: // ROLLBACK: the transaction had already failed
		t.b.abandon(nil)
		return fmt.Errorf("commit: %w: the server answers %s", backend.ErrUnavailable, tag)
	case conflict(err):
		t.b.abandon(err)
		return fmt.Errorf("commit: %w: %w: %w", backend.ErrConflict, backend.ErrUnavailable, err)
	case refused(err):
		t.b.abandon(err)
		return fmt.Errorf("commit: %w: %w", meaning(err), err)
	case lost(err):
		t.b.dropWriter(true)
		return fmt.Errorf("commit: %w: %w: %w", backend.ErrConflict, backend.ErrUnavailable, err)
	}
	t.b.servers.doubt(known.place)
	t.b.dropWriter(true)
	return fmt.Errorf("commit: %w: %w", backend.ErrUnknownOutcome, err)
}

// lost reports whether the server ended the transaction before the COMMIT, because it was idle or open for too long.
func lost(err error) bool {
	e := pgError(err)
	return e != nil && (e.Code == codeIdleInTx || e.Code == codeTxTimeout)
}

// finish runs the batch and returns the tag of its last statement.
func finish(ctx context.Context, c *pgx.Conn, batch *pgx.Batch) (tag string, err error) {
	br := c.SendBatch(ctx, batch)
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
