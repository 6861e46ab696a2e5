package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// lane is a pool of connections for one kind of statement. There are two, so that the writer, heartbeats, reads of the
// clock and renewals of leases never wait for a connection because of reads, however many and however slow.
type lane struct {
	b    *Backend
	pool *pgxpool.Pool
	// spare is a second pool that may have a connection sooner, or nil.
	spare *pgxpool.Pool
	// returned has an item for each connection that was given back lately.
	returned chan struct{}
	// first holds a token while somebody waits at a full server for a connection.
	first chan struct{}
	// tokens, if it is not nil, has a token for each statement of a kind that shares the lane with others.
	tokens chan struct{}
	// hedge, if it is not nil, learns when the statement of a query begins and ends.
	hedge *hedge
}

// laneFor returns the lane for a read. An urgent read may use control's connections, too, but only if reads has none
// left: all of control's connections may be waiting for something that the caller has locked, such as leases, and all
// of reads' connections may hang.
func (b *Backend) laneFor(ctx context.Context) lane {
	l := b.reads
	if backend.IsUrgent(ctx) {
		if st := l.pool.Stat(); st.AcquiredConns()+st.ConstructingConns() >= st.MaxConns() {
			l.spare = b.control.pool
		}
	}
	return l
}

// laneForMany is laneFor for a read that may take long, unless ctx says that it does not.
func (b *Backend) laneForMany(ctx context.Context) lane {
	l := b.laneFor(ctx)
	switch {
	case backend.IsUrgent(ctx), backend.IsBrief(ctx):
	case backend.IsMaintenance(ctx):
		l.tokens = b.maintenance
	default:
		l.tokens = b.long
	}
	return l
}

// errBusy is returned to a caller that has waited in vain because others used all connections. That says nothing about
// the server, or about the connections.
var errBusy = errors.New("all connections to the database are in use: allow more of them, or find out what they wait " +
	"for in pg_stat_activity")

// fullPause is how long no further connections are made after the server has refused one because it allows no more.
const fullPause = 200 * time.Millisecond

// controlNeeds is how many connections control has to have: the writer's, and another one.
const controlNeeds = 2

// acquire takes a connection from whichever pool has one first. If the server allows no more connections, it waits for
// one that others return, in the order of the calls, unless it is urgent. Errors: [errBusy], [backend.ErrClosed], those
// of the pool.
func (l lane) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	urgent := backend.IsUrgent(ctx)
	if urgent || len(l.first) == 0 {
		if c, err := l.either(ctx); !isFull(err) {
			return c, l.explain(ctx, err)
		}
	}
	if !urgent {
		select {
		case l.first <- struct{}{}:
			defer func() { <-l.first }()
		case <-l.b.closing:
			return nil, backend.ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errBusy, l.b.full.Load())
		}
	}
	for {
		c, err := l.either(ctx)
		if !isFull(err) {
			return c, l.explain(ctx, err)
		}
		l.evictIdle()
		select {
		case <-l.returned:
		case <-time.After(fullPause / 2): // sooner than reads may connect, so that control is first
		case <-l.b.closing:
			return nil, backend.ErrClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errBusy, err)
		}
	}
}

// explain returns the error of a caller that waited for a connection: [backend.ErrClosed] if the pools were closed
// meanwhile, one with errBusy if others used all connections.
func (l lane) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case l.b.closed():
		return backend.ErrClosed
	case ctx.Err() != nil && !l.connecting():
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return err
}

// evictIdle closes connections of the other lane that are or become idle, which count for the server. Control takes
// precedence up to what it needs; reads need one at least.
func (l lane) evictIdle() {
	has := l.pool.Stat().TotalConns()
	switch {
	case l.pool == l.b.control.pool && has < controlNeeds:
		l.b.reads.pool.Reset()
	case l.pool == l.b.reads.pool && has == 0:
		l.b.control.pool.Reset()
	}
}

// release returns a connection after a statement that ended with err.
func (l lane) release(c *pgxpool.Conn, err error) {
	if !settle(c, err) {
		// pgx waits up to 15 s for the server to close the connection, and the pool waits for pgx.
		_ = c.Conn().PgConn().Conn().Close()
	}
	c.Release()
	select {
	case l.returned <- struct{}{}:
	default:
	}
}

// connecting reports whether a connection is being made, which may be what a caller waits for.
func (l lane) connecting() bool {
	return l.pool.Stat().ConstructingConns() > 0 || l.spare != nil && l.spare.Stat().ConstructingConns() > 0
}

func (l lane) either(ctx context.Context) (*pgxpool.Conn, error) {
	if l.spare == nil {
		return l.pool.Acquire(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type acquired struct {
		c   *pgxpool.Conn
		err error
	}
	each := make(chan acquired, 2)
	for _, p := range []*pgxpool.Pool{l.pool, l.spare} {
		go func() {
			c, err := p.Acquire(ctx)
			each <- acquired{c, err}
		}()
	}
	first := <-each
	if first.err != nil {
		first = <-each
		return first.c, first.err
	}
	go func() {
		if second := <-each; second.err == nil {
			second.c.Release()
		}
	}()
	return first.c, nil
}

// query runs one read-only statement and passes its rows to each. It retries if the connection turns out to be broken
// or the error is transient. It calls reset before each attempt, to forget all that each has kept of the last one: the
// next server may have another history, and may return fewer rows. reset is nil if the rows do not matter.
func (l lane) query(
	ctx context.Context, doing string, reset func(), each func(*scanner) error, sql string, args ...any,
) error {
	if err := l.b.usable(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var err error
	for range 3 {
		if reset != nil {
			reset()
		}
		if err = l.queryOnce(limited, each, sql, args); err == nil {
			return nil
		}
		if limited.Err() != nil || answered(err) && !transient(err) {
			break
		}
		if !answered(err) {
			// If one connection broke, others probably did, or lead to a different server than a new one would.
			l.b.resetPools()
		}
	}
	if !answered(err) && !errors.Is(err, errBusy) && ctx.Err() == nil {
		l.b.resetPools()
	}
	return l.b.translate(ctx, doing, err)
}

func (l lane) queryOnce(ctx context.Context, each func(*scanner) error, sql string, args []any) error {
	if l.tokens != nil {
		select {
		case l.tokens <- struct{}{}:
			defer func() { <-l.tokens }()
		case <-l.b.closing:
			return backend.ErrClosed
		case <-ctx.Done():
			return l.explain(ctx, ctx.Err())
		}
	}
	c, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	l.b.reading.Add(1)
	defer l.b.reading.Add(-1)
	l.hedge.begin(c.Conn())
	err = l.scan(ctx, c.Conn(), each, sql, args)
	if !l.hedge.end() {
		closeConn(c.Conn())
	}
	l.release(c, err)
	return err
}

func (l lane) scan(ctx context.Context, c *pgx.Conn, each func(*scanner) error, sql string, args []any) error {
	if linkOf(c).direct || l.b.features.readBounds == "" {
		return scan(ctx, c, each, sql, args)
	}
	return l.scanBounded(ctx, c, each, sql, args)
}

// scanBounded is scan through a pooler, whose sessions are not ours: it sets the statement's timeout in the same
// transaction as the statement.
func (l lane) scanBounded(ctx context.Context, c *pgx.Conn, each func(*scanner) error, sql string, args []any) error {
	var one loader
	one.add(nil, beginSQL)
	one.add(nil, l.b.features.readBounds)
	one.add(each, sql, args...)
	one.add(nil, "COMMIT")
	err := one.run(ctx, c)
	if !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		closing, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_, _ = c.Exec(closing, "ROLLBACK") // the pool does not reuse a connection that is still inside a transaction
	}
	return err
}

func scan(ctx context.Context, c *pgx.Conn, each func(*scanner) error, sql string, args []any) error {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return scanRows(rows, each)
}

// transaction runs f in a transaction outside the writing connection, with the server-side timeouts. f may run several
// times.
func (l lane) transaction(ctx context.Context, doing string, f func(ctx context.Context, tx pgx.Tx) error) error {
	if err := l.b.usable(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	var err error
	for range 3 {
		var how ending
		how, err = l.transactionOnce(limited, f)
		l.b.noteFailure(ctx, how, err)
		if err == nil || limited.Err() != nil || !how.retry && !transient(err) {
			break
		}
	}
	return l.b.translate(ctx, doing, err)
}

// ending describes how a failed transaction ended.
type ending struct {
	// broken is set if its connection broke, or none could be made.
	broken bool
	// retry is set if, in addition, no COMMIT was sent, so that nothing happened and a retry is safe: a connection that
	// broke while idle is detected only by its next use.
	retry bool
}

func (l lane) transactionOnce(
	ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error,
) (how ending, err error) {
	c, err := l.acquire(ctx)
	if err != nil {
		return ending{broken: !refused(err) && !errors.Is(err, errBusy)}, err
	}
	sent, err := l.within(ctx, c.Conn(), f)
	how.broken = err != nil && c.Conn().IsClosed()
	how.retry = how.broken && !sent
	l.release(c, err)
	return how, err
}

// within runs f between BEGIN and COMMIT, and reports whether the COMMIT was sent.
func (l lane) within(
	ctx context.Context, c *pgx.Conn, f func(ctx context.Context, tx pgx.Tx) error,
) (sent bool, err error) {
	known := linkOf(c)
	known.warning.Store(nil)
	tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSQL})
	if err != nil {
		return false, err
	}
	if _, err = tx.Exec(ctx, l.b.features.bounds); err == nil {
		err = f(ctx, tx)
	}
	if err == nil {
		_, err = tx.Exec(ctx, l.b.features.unbound)
	}
	if err != nil {
		if !c.IsClosed() {
			closing, cancel := context.WithTimeout(context.Background(), endTimeout)
			defer cancel()
			_ = tx.Rollback(closing) // Rollback closes the connection if it fails
		}
		return false, err
	}
	known.committing.Store(true)
	err = tx.Commit(ctx)
	known.committing.Store(false)
	if w := known.warning.Load(); err == nil && w != nil {
		return true, fmt.Errorf("the server warns: %s", w.Message)
	}
	if err != nil && !refused(err) {
		l.b.servers.doubt(known.place)
	}
	return true, err
}

// microseconds converts a duration as the statements return it.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
