package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

const (
	// The reserve is created if the file system has reserveAmple times its size free. Once released, it is restored
	// when reserveRegain times its size is free, which leaves some room for what is written next.
	reserveAmple  = 10
	reserveRegain = 2

	// reserveCheck is how often restoring a released reserve is tried, reserveRetry how often creating one is tried
	// when there was no room for it at startup.
	reserveCheck = time.Second
	reserveRetry = time.Minute

	// startBytes is the free space in bytes that startup needs, for the WAL's index and a migration.
	startBytes = 1 << 20
)

// reserve is a file next to the database that holds disk space. When the disk is full, the file is truncated to zero,
// so that deletes, compaction and checkpoints can be written, and new rows are refused until there is room for the
// reserve again. An empty file tells the next start that the reserve was released.
type reserve struct {
	path string
	size int64
	log  *slog.Logger

	// outOfSpace is the error for new rows while the reserve is released, nil otherwise.
	outOfSpace atomic.Pointer[error]
	held       atomic.Int64 // bytes
	mu         sync.Mutex   // guards the file

	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// openReserve checks the state of the reserve; it returns nil when no reserve is configured. On a full disk it releases
// the reserve, because startup itself might fail otherwise.
func (b *Backend) openReserve() (*reserve, error) {
	path := b.path + ".reserve"
	switch {
	case b.cfg.ReserveBytes == 0 || b.cfg.Temporary:
		return nil, nil
	case b.cfg.ReserveBytes < 0:
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove the disk reserve: %w", err)
		}
		return nil, nil
	}
	r := &reserve{path: path, size: b.cfg.ReserveBytes, log: b.log, wake: make(chan struct{}, 1)}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at the disk reserve: %w", err)
	case info.Size() == 0:
		r.refuse()
	default:
		r.held.Store(min(info.Size(), allocated(info)))
	}
	if total, err := totalBytes(filepath.Dir(path)); err == nil && total > 0 && total < r.size {
		r.log.Warn("the disk reserve is larger than its file system and cannot be made: reduce "+
			setting.Name("DiskReserveBytes"), "path", path, "reserve-bytes", r.size, "file-system-bytes", total)
	}
	if free, err := freeBytes(filepath.Dir(path)); err == nil && free < startBytes {
		r.release(fmt.Errorf("%d bytes are free", free))
	}
	return r, nil
}

// start creates or restores the reserve in the background.
func (r *reserve) start() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go r.run(ctx)
}

// stop ends the background work that start began.
func (r *reserve) stop() {
	if r != nil && r.cancel != nil {
		r.cancel()
		<-r.done
	}
}

func (r *reserve) run(ctx context.Context) {
	defer close(r.done)
	for {
		var again <-chan time.Time
		if pause := r.check(ctx); pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-again:
		}
	}
}

// check creates the reserve if there is room for it. It returns how long to wait before the next check; 0 means until
// the reserve is released.
func (r *reserve) check(ctx context.Context) (pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	released := r.released()
	factor, pause := int64(reserveAmple), reserveRetry
	if released {
		factor, pause = reserveRegain, reserveCheck
	}
	switch held := r.held.Load(); {
	case held == r.size:
		return 0
	case held > 0: // of a different size, or not fully allocated
		factor = reserveRegain
	}
	free, err := freeBytes(filepath.Dir(r.path))
	if err != nil {
		r.log.Warn("cannot find out how much disk space is free for the reserve", "path", r.path, "error", err)
		return reserveRetry
	}
	if free/factor < r.size {
		return pause
	}
	if err := r.allocate(ctx); err != nil {
		r.discard(released)
		if ctx.Err() == nil {
			r.log.Warn("cannot make the disk reserve", "path", r.path, "bytes", r.size, "error", err)
		}
		return reserveRetry
	}
	r.held.Store(r.size)
	if released {
		r.outOfSpace.Store(nil)
		r.log.Info("the disk has room again: the reserve is restored, and puts are accepted", "path", r.path,
			"reserve-bytes", r.size)
	}
	return 0
}

// full releases the reserve if err means that the disk is full.
func (r *reserve) full(err error) {
	if r != nil && lacksSpace(err) {
		r.release(err)
	}
}

func (r *reserve) release(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held.Load()
	if held == 0 {
		return
	}
	if err := os.Truncate(r.path, 0); err != nil {
		r.held.Store(0) // somebody has removed it: there is nothing to release
		r.log.Warn("the disk is full, and its reserve cannot be released", "path", r.path, "error", err, "cause", cause)
		return
	}
	r.held.Store(0)
	r.refuse()
	r.log.Warn("the disk is full: released the reserve for deletes and compaction, puts are refused meanwhile; free "+
		"space on the disk, or delete keys, compact and defragment", "path", r.path, "released-bytes", held,
		"until-free-bytes", r.size*reserveRegain, "cause", cause)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// refuse makes the backend report that it is out of space, so that new rows are refused.
func (r *reserve) refuse() {
	err := fmt.Errorf("%w: the disk was full and its reserve is released: only deletes and compaction are accepted "+
		"until %d MiB are free", backend.ErrNoSpace, r.size>>20*reserveRegain)
	r.outOfSpace.Store(&err)
}

// lacksSpace reports whether the disk, or a quota on it, is full.
func lacksSpace(err error) bool {
	var e sqlite3.Error
	return errors.Is(err, backend.ErrNoSpace) ||
		errors.As(err, &e) && (e.Code == sqlite3.ErrFull || isFull(e.SystemErrno))
}

// released reports whether new rows are refused until there is room for the reserve again.
func (r *reserve) released() bool { return r != nil && r.outOfSpace.Load() != nil }

// OutOfSpace implements [backend.Reserving].
func (b *Backend) OutOfSpace() error {
	if b.reserve != nil {
		if err := b.reserve.outOfSpace.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// Reserved implements [backend.Reserving].
func (b *Backend) Reserved() int64 {
	if b.reserve == nil {
		return 0
	}
	return b.reserve.held.Load()
}

var _ backend.Reserving = (*Backend)(nil)
