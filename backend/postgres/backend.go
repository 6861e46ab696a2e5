package postgres

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Backend is a [backend.Shared] and [backend.Verifying] over one Postgres database. [Open] creates it.
type Backend struct {
	cfg Config
	log *slog.Logger
	dsn *pgx.ConnConfig // for the listener's connection, which is not in a pool
	// pools configures both lanes' pools together.
	pools *pgxpool.Config

	// control is for statements that keep this process in service: the writer's, heartbeats, the clock, leases. reads
	// is for all others.
	control, reads lane
	// long holds a token for each read that may take long, and maintenance one for such a read of the store's own; with
	// few connections they are the same. They leave one of reads' connections to others, if it has more than one.
	long, maintenance chan struct{}

	settings backend.Settings
	features features
	servers  servers
	tracer   *tracing.Tracer // of statements; nil makes no spans

	// anySession is set if the DSN or the environment names the sessions that are acceptable.
	anySession bool

	// pooled is set if a pooler was detected in front of the server. Statements are then sent in a mode that poolers
	// support.
	pooled atomic.Bool

	// unbounded disables the timeout of statements outside transactions.
	unbounded bool

	// commitTimeout is the constant of that name, except in tests, which use less.
	commitTimeout time.Duration

	// writerLock holds a token while the writing connection is in use.
	writerLock chan struct{}
	// writer is the writing connection, nil when there is none.
	writer *pgxpool.Conn
	insert insertArrays

	// listens counts the attempts to connect for notifications.
	listens atomic.Int64
	// apart is set while a read runs on a connection of its own; see [hedged].
	apart atomic.Bool
	// hintsAfter is 0, or when the next hint is sent after the server has refused one, in nanoseconds since 1970.
	hintsAfter atomic.Int64

	// weak is the last answer to weakOf.
	weak atomic.Pointer[string]
	// unprotected is a server's last answer to unprotectedPages.
	unprotected atomic.Bool

	home     home                                // where the database was at the start
	restored atomic.Pointer[backend.Restoration] // nil if nothing shows a restore

	// opened counts the connections that the pools have made.
	opened atomic.Int64
	// full is the server's last refusal of a connection because of a limit, nil if there was none.
	full atomic.Pointer[refusedConn]

	purged purgedKeys

	// analyzed is the revision at which the planner's statistics were last updated.
	analyzed atomic.Int64

	// reading counts the statements in progress outside the writing connection.
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

// usable returns the error of a method that is called after ctx has ended or the backend is closed, nil otherwise.
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

// Close implements [backend.Backend]. It waits for the transaction and the reads in progress.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() {
		close(b.closing)
		b.writerLock <- struct{}{}
		b.dropWriter(false)
		b.work.Wait()
		b.closePools()
	})
	return nil
}

// noteFailure closes all connections if one broke or its server has become read-only: the others may be broken, too, or
// lead to the same server.
func (b *Backend) noteFailure(ctx context.Context, how ending, err error) {
	if err == nil || ctx.Err() != nil || b.closed() {
		return
	}
	if e := pgError(err); how.broken || e != nil && e.Code == codeReadOnly {
		b.resetPools()
	}
}

// resetPools closes all connections. Those in use are closed when they are returned.
func (b *Backend) resetPools() {
	b.control.pool.Reset()
	b.reads.pool.Reset()
}

func (b *Backend) closePools() {
	b.control.pool.Close()
	b.reads.pool.Close()
}
