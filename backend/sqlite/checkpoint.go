package sqlite

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// walLimit is the size of the WAL in bytes at which it is copied into the database and starts again from its beginning.
	// The more it holds, the more often a page in it is newer than another copy of itself, which need not be copied: 18 us of
	// CPU a row at 4 MiB, 16 at 64, and no less beyond.
	walLimit = 64 << 20
	// lookEvery is how many bytes are written, by a rough count, between two looks at the WAL's real size.
	lookEvery = 4 << 20
)

// checkpointer copies the WAL into the database, off the path of commits.
type checkpointer struct {
	b       *Backend
	written int64 // since the last wake; guarded by the writer's turn
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

func startCheckpointer(b *Backend) *checkpointer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &checkpointer{b: b, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// stop ends the checkpointer and waits for it.
func (p *checkpointer) stop() {
	p.cancel()
	<-p.done
}

// wrote counts what a commit has added. A row in a random place of the key order dirties an index page of its own.
func (p *checkpointer) wrote(e *backend.Effects) {
	n := 4 * p.b.pageSize
	for i := range e.Rows {
		n += int64(len(e.Rows[i].Value)) + p.b.pageSize
	}
	if p.written += n; p.written >= lookEvery {
		p.written = 0
		p.poke()
	}
}

// removed counts what a purge has added: both indexes and the table lose an entry, in places that may all differ.
func (p *checkpointer) removed(rows int) {
	if p.written += int64(rows) * 2 * p.b.pageSize; p.written >= lookEvery {
		p.written = 0
		p.poke()
	}
}

func (p *checkpointer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *checkpointer) run(ctx context.Context) {
	defer close(p.done)
	c, err := connect(p.b.path, "synchronous = "+p.b.synchronous(), "wal_autocheckpoint = 0")
	if err != nil {
		p.b.breakDown("open the checkpointing connection", err)
		return
	}
	defer func() {
		if err := c.close(); err != nil {
			p.b.log.Warn("close the checkpointing connection", "error", err)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			p.once(ctx, c)
		}
	}
}

// once looks at the WAL and does what its size asks for.
func (p *checkpointer) once(ctx context.Context, c *conn) {
	if total, ok := p.checkpoint(c, "NOOP"); !ok || total < walLimit {
		return
	}
	// Beside the writer, for most of it. But a WAL that is always being added to never starts again by itself, so the rest is
	// done while the writer waits.
	if _, ok := p.checkpoint(c, "PASSIVE"); ok && p.b.takeTurn(ctx) == nil {
		p.checkpoint(c, "RESTART")
		p.b.giveTurn()
	}
}

// checkpoint returns the bytes in the WAL.
func (p *checkpointer) checkpoint(c *conn, mode string) (total int64, ok bool) {
	n, err := c.queryInts("PRAGMA wal_checkpoint(" + mode + ")")
	if err != nil || len(n) != 3 {
		p.failed(err)
		return 0, false
	}
	return n[1] * p.b.pageSize, true
}

func (p *checkpointer) failed(err error) {
	if err != nil {
		// Unless this has ended all writing: the WAL stays as it is, and the next look tries again.
		p.b.log.Warn("checkpoint failed", "path", p.b.path, "error", p.b.syncError("checkpoint", err))
	}
}
