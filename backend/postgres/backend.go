package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// Backend is a [backend.Shared] over one Postgres database. [Open] makes it.
type Backend struct {
	cfg  Config
	log  *slog.Logger
	pool *pgxpool.Pool
	dsn  *pgx.ConnConfig // for the listener's connection, which is not the pool's

	settings backend.Settings
	features features

	// pooled says that a pooler was found before the server, and that statements are sent as it bears them.
	pooled atomic.Bool

	// commitTimeout is the constant, less in tests.
	commitTimeout time.Duration

	// turn holds a token for as long as somebody has the writing connection.
	turn chan struct{}
	// writer is the writing connection, nil when there is none. It stays out of the pool, so that reads cannot starve writes.
	writer *pgxpool.Conn
	insert insertArrays

	// listens counts the connections that were tried for notifications.
	listens atomic.Int64

	// analyzed is the revision at which the planner was last told how large the tables are.
	analyzed atomic.Int64

	// reading counts the statements outside the writer's turn that are under way.
	reading atomic.Int64

	closing   chan struct{}
	closeOnce sync.Once
	work      sync.WaitGroup
}

func (b *Backend) closed() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

// usable is the error of a method that is called when it cannot do anything any more.
func (b *Backend) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.closed() {
		return backend.ErrClosed
	}
	return nil
}

// Settings implements [backend.Backend].
func (b *Backend) Settings(context.Context) (backend.Settings, error) {
	if b.closed() {
		return backend.Settings{}, backend.ErrClosed
	}
	return b.settings, nil
}

// Close implements [backend.Backend]. It waits for the transaction and the reads that are under way.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() {
		close(b.closing)
		b.turn <- struct{}{}
		b.dropWriter(false)
		b.work.Wait()
		b.pool.Close()
	})
	return nil
}

// query runs one statement that only reads and hands its rows to each. It tries again, with reset called before, where the
// connection turns out to be broken or the server asks for it.
func (b *Backend) query(ctx context.Context, doing string, reset func(), each func(*scanner) error, sql string, args ...any) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var err error
	for range 3 {
		if reset != nil {
			reset()
		}
		if err = b.queryOnce(limited, each, sql, args); err == nil {
			return nil
		}
		if limited.Err() != nil || refused(err) && !transient(err) {
			break
		}
		if !refused(err) {
			b.pool.Reset() // where one connection broke, others have, or lead to another server than a new one would
		}
	}
	if !refused(err) && ctx.Err() == nil {
		b.pool.Reset()
	}
	return b.translate(ctx, doing, err)
}

func (b *Backend) queryOnce(ctx context.Context, each func(*scanner) error, sql string, args []any) error {
	c, err := b.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	b.reading.Add(1)
	defer func() {
		b.reading.Add(-1)
		c.Release()
	}()
	return scan(ctx, c.Conn(), each, sql, args)
}

func scan(ctx context.Context, c *pgx.Conn, each func(*scanner) error, sql string, args []any) error {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return scanRows(rows, each)
}

// transaction runs f in a transaction outside the writer's turn, with the server's bounds on it. f may run several times.
func (b *Backend) transaction(ctx context.Context, doing string, f func(ctx context.Context, tx pgx.Tx) error) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	var err error
	for range 3 {
		if err = b.transactionOnce(limited, f); err == nil || limited.Err() != nil || !transient(err) {
			break
		}
	}
	b.noteFailure(ctx, err)
	return b.translate(ctx, doing, err)
}

func (b *Backend) transactionOnce(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	c, err := b.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	linkOf(c.Conn()).warning.Store(nil)
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{BeginQuery: beginSQL}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, b.features.bounds); err != nil {
			return err
		}
		if err := f(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, b.features.unbound)
		return err
	})
	if w := linkOf(c.Conn()).warning.Load(); err == nil && w != nil {
		return fmt.Errorf("the server warns: %s", w.Message)
	}
	return err
}

// noteFailure closes all connections when one broke, or turned out to lead to a server that is not the primary any more.
func (b *Backend) noteFailure(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || b.closed() {
		return
	}
	if e := pgError(err); !refused(err) || e.Code == codeReadOnly {
		b.pool.Reset()
	}
}

// microseconds is a duration as the statements return it.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
