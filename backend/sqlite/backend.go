package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Backend is a [backend.Backend] over one SQLite file. [Open] creates it.
type Backend struct {
	cfg       Config
	log       *slog.Logger
	tracer    *tracing.Tracer // nil makes no spans
	path      string
	tempDir   string        // removed by Close when not empty
	given     string        // the path to the file before symbolic links are followed
	file      *pagesum.File // the database file, used to sync it concurrently with the writer
	content   content
	logFile   *os.File        // the log, nil if it could not be opened
	salvaging loglimit.Outage // of a removed log

	// lock is the lock file; once the backend is open, content's mutex guards it and lockInfo. If fileLocked is set,
	// the database file is locked, too.
	lock       *os.File
	lockInfo   os.FileInfo
	formerLock *os.File // that of b.path, if another path is locked now: the log is still beside b.path
	fileLocked bool
	relocking  loglimit.Outage

	before   reached // before this start
	settings backend.Settings
	pageSize int64

	// clock is the clock in the file; it moves after each commit.
	clock atomic.Pointer[backend.Clock]
	// broken is the reason why the backend has stopped writing, nil while it still writes.
	broken atomic.Pointer[error]

	// writerLock holds a token while the writing connection is in use. It guards written, the time of the last commit
	// in milliseconds since 1970, 0 if no row tells it.
	writerLock chan struct{}
	writer     *conn
	written    int64
	now        func() int64 // the time by the machine's clock, likewise
	plain      bool         // pages have no checksums, or they are not verified

	// long holds a token for each read that may take long: they leave one of the readers to others, if there are more.
	long chan struct{}
	// readers holds the idle reading connections; nil stands for one that has not been opened yet.
	readers chan *conn
	// urgent is likewise for one connection that only urgent reads may use, so that no write waits for other reads.
	urgent chan *conn
	// scanners is likewise for connections that read the table from one end to the other. Their page caches are small:
	// no page is read twice, and a copy into memory that the processor has in its cache takes half the time.
	scanners chan *conn
	// maintenance is likewise for one connection for the store's own work.
	maintenance chan *conn

	checkpoints *checkpointer
	reserve     *reserve // nil when there is none

	// purging guards window, which is nil between two windows.
	purging    sync.Mutex
	window     *window
	windowRows int

	closing   chan struct{}
	opening   sync.WaitGroup // openReaders
	watching  sync.WaitGroup // watchPlace
	closeOnce sync.Once
	closeErr  error
}

// Settings implements [backend.Backend].
func (b *Backend) Settings(context.Context) (backend.Settings, error) {
	return b.settings, b.usable()
}

// Clock implements [backend.Backend].
func (b *Backend) Clock(context.Context) (backend.Clock, error) {
	return *b.clock.Load(), b.usable()
}

func (b *Backend) usable() error {
	select {
	case <-b.closing:
		return backend.ErrClosed
	default:
	}
	return b.overwritten()
}

// Leases implements [backend.Backend].
func (b *Backend) Leases(ctx context.Context) (leases []backend.Lease, err error) {
	_, err = b.read(ctx, "read leases", func(c *conn) error {
		return c.each(context.Background(), readLeases, func(row []driver.Value) bool {
			l := backend.Lease{ID: integer(row[0]), TTL: time.Duration(integer(row[1])) * time.Second}
			if l.Ending = l.TTL < 0; l.Ending {
				l.TTL = -l.TTL
			}
			leases = append(leases, l)
			return true
		})
	})
	return leases, err
}

// Alarms implements [backend.Backend].
func (b *Backend) Alarms(ctx context.Context) (alarms []backend.Alarm, err error) {
	_, err = b.read(ctx, "read alarms", func(c *conn) error {
		return c.each(context.Background(), readAlarms, func(row []driver.Value) bool {
			alarms = append(alarms, backend.Alarm{Member: uint64(integer(row[0])), Kind: int32(integer(row[1]))})
			return true
		})
	})
	return alarms, err
}

// read runs f on a reading connection and reports the clock of its snapshot, as the package documentation explains. f
// runs one statement, or several that do not need to see the same snapshot.
func (b *Backend) read(ctx context.Context, doing string, f func(*conn) error) (backend.Clock, error) {
	urgent := b.urgent
	if !backend.IsUrgent(ctx) {
		urgent = nil
	}
	return b.readWith(ctx, b.readers, urgent, readerCache, doing, f)
}

// readMany is read for what may take long, unless ctx says that it does not: it leaves a connection to other reads.
func (b *Backend) readMany(ctx context.Context, doing string, f func(*conn) error) (backend.Clock, error) {
	switch {
	case backend.IsUrgent(ctx), backend.IsBrief(ctx):
		return b.read(ctx, doing, f)
	case backend.IsMaintenance(ctx):
		return b.readWith(ctx, b.maintenance, nil, readerCache, doing, f)
	}
	select {
	case b.long <- struct{}{}:
		defer func() { <-b.long }()
	case <-ctx.Done():
		return backend.Clock{}, ctx.Err()
	case <-b.closing:
		return backend.Clock{}, backend.ErrClosed
	}
	return b.read(ctx, doing, f)
}

// scan is read on a connection for reading much of the table.
func (b *Backend) scan(ctx context.Context, doing string, f func(*conn) error) (backend.Clock, error) {
	return b.readWith(ctx, b.scanners, nil, scannerCache, doing, f)
}

// readWith is read on a connection of from, or of urgent. A new one gets a page cache of so many KiB.
func (b *Backend) readWith(
	ctx context.Context, from, urgent chan *conn, cache int, doing string, f func(*conn) error,
) (backend.Clock, error) {
	if err := ctx.Err(); err != nil {
		return backend.Clock{}, err
	}
	var c *conn
	select {
	case c = <-from:
	case c = <-urgent:
		from = urgent
	case <-ctx.Done():
		return backend.Clock{}, ctx.Err()
	case <-b.closing:
		return backend.Clock{}, backend.ErrClosed
	}
	defer func() { from <- c }()
	if err := b.usable(); err != nil {
		return backend.Clock{}, err
	}
	if c == nil {
		opened, err := b.connectReader(cache)
		if err != nil {
			return backend.Clock{}, b.translate("open a reading connection", err)
		}
		c = opened
	}
	clock := *b.clock.Load()
	if err := f(c); err != nil {
		if ctx.Err() != nil {
			return backend.Clock{}, ctx.Err()
		}
		return backend.Clock{}, b.translate(doing, err)
	}
	clock.Compacted = b.clock.Load().Compacted
	return clock, nil
}

// acquireWriter waits for the writing connection. After it succeeds, the caller must call releaseWriter.
func (b *Backend) acquireWriter(ctx context.Context) error {
	if err := b.checkpoints.throttle(ctx); err != nil {
		return err
	}
	return b.acquireWriterForCheckpoint(ctx)
}

// acquireWriterForCheckpoint is acquireWriter for the checkpointer, which cannot wait for itself.
func (b *Backend) acquireWriterForCheckpoint(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.writerLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return backend.ErrClosed
	}
	err := b.writable()
	if err != nil {
		b.releaseWriter()
	}
	return err
}

func (b *Backend) writable() error {
	if err := b.usable(); err != nil {
		return err
	}
	if broken := b.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Refused implements [backend.Refusing].
func (b *Backend) Refused() error {
	if broken := b.broken.Load(); broken != nil {
		if _, ok := errors.AsType[*backend.Refusal](*broken); ok {
			return *broken
		}
	}
	return nil
}

func (b *Backend) releaseWriter() { <-b.writerLock }

// markBroken makes the backend refuse all further writes, because it is unknown what the last one left in the file.
func (b *Backend) markBroken(doing string, cause error) error {
	err := fmt.Errorf("%s: %w; further writes are refused, restart to read what the file holds: %w",
		doing, backend.ErrUnknownOutcome, cause)
	b.reserve.full(cause) // the restart needs room
	if b.broken.CompareAndSwap(nil, &err) {
		b.log.Error("database refuses all further writes", "path", b.path, "error", err)
		b.noteReached()
	}
	return err
}

// refuseWrites makes the backend refuse further writes. The log is damaged, so it cannot be copied and would grow
// without end. What is not damaged can still be read.
func (b *Backend) refuseWrites(err error) {
	err = fmt.Errorf("further writes are refused, export what can be read: %w", err)
	if !b.broken.CompareAndSwap(nil, &err) {
		return
	}
	b.log.Error("database refuses all further writes", "path", b.path, "error", err)
	b.noteReached() // the next start finds less than what was acknowledged
}

// noteReached notes what the store has reached, as far as that is possible now.
func (b *Backend) noteReached() {
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	owner := b.owner()
	if b.overwritten() != nil {
		owner = b.foreignOwner()
	}
	if err := b.writeNote(owner); err != nil {
		b.log.Warn("cannot note what the store has reached", "path", b.path, "error", err)
	}
}

// Close implements [backend.Backend]. It waits for the transaction and the reads in progress.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() {
		close(b.closing)
		b.opening.Wait()
		b.watching.Wait()
		b.reserve.stop()
		b.checkpoints.stop()
		_ = b.checkPaths() // logged
		b.writerLock <- struct{}{}
		_ = b.checkClock() // logged
		b.closeErr = errors.Join(closeAll(b.readers), closeAll(b.urgent), closeAll(b.scanners),
			closeAll(b.maintenance))
		b.finishLog()
		b.closeErr = errors.Join(b.closeErr, b.release())
	})
	return b.closeErr
}

// finishLog copies the log into the file at the end.
func (b *Backend) finishLog() {
	broken := b.broken.Load()
	removed := broken != nil && errors.Is(*broken, errLogRemoved)
	if broken != nil && !removed {
		return
	}
	_, err := b.writer.run(markClosed)
	if err == nil || isCode(err, sqlite3.ErrFull) {
		var n []int64
		if n, err = b.copyLog(b.writer, "TRUNCATE"); err == nil && !copiedAll(n) {
			err = errLogInUse
		}
	}
	switch {
	case err == nil, errors.Is(err, errOverwritten): // logged
	case removed:
		b.putLogBack(err)
	case errors.Is(err, errLogInUse): // Litestream, for example, always does that
		b.log.Info("checkpoint at close is incomplete; the next start goes on from the WAL", "path", b.path,
			"reason", err)
	default:
		b.log.Warn("checkpoint at close failed; the next start goes on from the WAL", "path", b.path, "error", err)
	}
}

// closeAll waits for the reads in progress and closes their connections.
func closeAll(conns chan *conn) (err error) {
	for range cap(conns) {
		err = errors.Join(err, (<-conns).close())
	}
	return err
}

// release releases whatever open has acquired so far.
func (b *Backend) release() error {
	err := b.writer.close()
	if b.writer != nil && err == nil {
		switch broken := b.broken.Load(); {
		case broken == nil, errors.Is(*broken, errLogRemoved):
			err = b.note(b.owner())
		case errors.Is(*broken, errReplaced): // the next start decides whether the log belongs to what is at the path
			if _, at := os.Stat(b.path); errors.Is(at, os.ErrNotExist) && b.logAt() {
				err = b.saveLog() // beside it, no new store could begin
			}
			err = errors.Join(err, b.note(b.foreignOwner()), b.noteAtPath())
		case errors.Is(*broken, errOverwritten):
			n := note{owner: b.foreignOwner(), reached: b.reached()}
			if _, err := b.settleLog(context.Background(), n); err != nil {
				b.log.Warn("the next start may fail", "path", b.path, "error", err)
			}
			err = b.note(n.owner)
		}
	}
	if b.file != nil {
		err = errors.Join(err, b.file.Close())
	}
	if b.logFile != nil {
		err = errors.Join(err, b.logFile.Close())
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Close())
	}
	if b.formerLock != nil {
		err = errors.Join(err, b.formerLock.Close())
	}
	if b.tempDir != "" {
		err = errors.Join(err, os.RemoveAll(b.tempDir))
	}
	return err
}
