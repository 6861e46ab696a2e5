package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long a read of the head, or of the tail, may take before it is sent again on a new connection. A tail may have
// many rows.
const (
	headPatience = time.Second
	tailPatience = 3 * time.Second
)

// hedged returns the answer to a read that all others wait for. If a statement of pooled takes longer than patience,
// apart sends the read on a connection of its own as well: a connection that leads through a firewall which has
// forgotten it, or to a stopped server process, hangs while others work. If apart succeeds first, that connection is
// closed, which ends pooled. The lane's idle connections may hang, too, and are replaced. If apart fails, that does not
// matter. One such read runs at a time.
func hedged[T any](
	ctx context.Context, b *Backend, patience time.Duration, pooled func(context.Context, lane) (T, error),
	apart func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answer atomic.Pointer[T]
	h := hedge{patience: patience}
	h.late = func() {
		if !b.apart.CompareAndSwap(false, true) {
			return
		}
		defer b.apart.Store(false)
		value, err := apart(ctx)
		if err != nil {
			return
		}
		answer.Store(&value)
		cancel()   // first, so that pooled does not try again
		h.hangUp() // at once: on an open connection, pooled would wait for an answer to the cancel request
		b.control.pool.Reset()
	}
	l := b.control
	l.hedge = &h
	value, err := pooled(ctx, l)
	if v := answer.Load(); err != nil && v != nil {
		return *v, nil
	}
	return value, err
}

// hedge watches the statements of a read, one after the other. The methods of a nil hedge do nothing.
type hedge struct {
	patience time.Duration
	// late is called if a statement takes longer than patience.
	late  func()
	timer *time.Timer

	mu     sync.Mutex
	socket *socket // of the statement in progress, or nil
}

// begin is called when a statement begins on c.
func (h *hedge) begin(c *pgx.Conn) {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.socket = linkOf(c).socket
	h.mu.Unlock()
	h.timer = time.AfterFunc(h.patience, func() {
		if h.running() {
			h.late()
		}
	})
}

// running reports whether a statement is in progress.
func (h *hedge) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.socket != nil
}

// end is called when the statement has ended, before its connection is released. It returns false if hangUp has closed
// the connection, which pgx may not have noticed.
func (h *hedge) end() (open bool) {
	if h == nil {
		return true
	}
	h.timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	open = h.socket != nil
	h.socket = nil
	return open
}

// hangUp closes the connection of the statement in progress, if there is one.
func (h *hedge) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.socket != nil {
		_ = h.socket.Close()
		h.socket = nil
	}
}

// queryApart is query, without retries, on a connection outside the pools.
func (b *Backend) queryApart(ctx context.Context, each func(*scanner) error, sql string, args ...any) error {
	if full := b.full.Load(); full != nil && time.Since(full.at) < fullPause {
		return full
	}
	c, err := b.connectOnce(ctx)
	if err != nil {
		return err
	}
	defer closeConn(c)
	return b.control.scan(ctx, c, each, sql, args)
}
