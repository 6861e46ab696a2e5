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
)

// Backend is a [backend.Shared] over one Postgres database. [Open] makes it.
type Backend struct {
	cfg Config
	log *slog.Logger
	dsn *pgx.ConnConfig // for the listener's connection, which is in no pool

	// control is for statements that keep this process in service: the writer's, heartbeats, the clock, leases. reads
	// is for all others.
	control, reads lane

	settings backend.Settings
	features features
	servers  servers
	// anySession says that the DSN names the sessions that are good enough.
	anySession bool

	// pooled says that a pooler was found before the server, and that statements are sent as it bears them.
	pooled atomic.Bool

	// unbounded says that statements outside transactions may take as long as they like.
	unbounded bool

	// commitTimeout is the constant, less in tests.
	commitTimeout time.Duration

	// turn holds a token for as long as somebody has the writing connection.
	turn chan struct{}
	// writer is the writing connection, nil when there is none.
	writer *pgxpool.Conn
	insert insertArrays

	// listens counts the connections that were tried for notifications.
	listens atomic.Int64

	// weak is what the last answer to weakOf was.
	weak atomic.Pointer[string]

	// analyzed is the revision at which the planner last got the sizes of the tables.
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
		b.closePools()
	})
	return nil
}

// noteFailure closes all connections when one broke, or turned out to lead to a server that is not the primary any
// more.
func (b *Backend) noteFailure(ctx context.Context, how ending, err error) {
	if err == nil || ctx.Err() != nil || b.closed() {
		return
	}
	if e := pgError(err); how.broke || e != nil && e.Code == codeReadOnly {
		b.resetPools()
	}
}

// resetPools closes all connections: those that are in use, when they are given back.
func (b *Backend) resetPools() {
	b.control.pool.Reset()
	b.reads.pool.Reset()
}

func (b *Backend) closePools() {
	b.control.pool.Close()
	b.reads.pool.Close()
}
