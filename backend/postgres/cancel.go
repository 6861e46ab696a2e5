package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// cancelDelay is how long a statement whose context has ended may take to finish by itself. Most do, which saves
	// the cancel request.
	cancelDelay = 50 * time.Millisecond
	// cancelTimeout is the time after which its connection is closed if the server has neither answered nor acted on
	// the cancel request.
	cancelTimeout = time.Second
)

// canceller ends the statement of a connection when its context ends: it asks the server to cancel it, so that the
// server stops working on an unwanted answer and the connection is soon free again. It never cancels a COMMIT: one that
// waits for a synchronous standby would then count as committed on a server whose standby does not have it.
type canceller struct {
	c *pgconn.PgConn
	l *link

	over chan struct{} // closed when the statement has ended
	done chan struct{} // closed when no request is in flight any more
}

// HandleCancel implements [ctxwatch.Handler].
func (h *canceller) HandleCancel(context.Context) {
	h.over, h.done = make(chan struct{}), make(chan struct{})
	if h.l.committing.Load() {
		_ = h.c.Conn().SetDeadline(time.Now().Add(grace))
		close(h.done)
		return
	}
	_ = h.c.Conn().SetDeadline(time.Now().Add(cancelTimeout))
	go h.request()
}

func (h *canceller) request() {
	defer close(h.done)
	delay := time.NewTimer(cancelDelay)
	defer delay.Stop()
	select {
	case <-h.over:
		return
	case <-delay.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout-cancelDelay)
	defer cancel()
	h.l.cancelled = true
	h.l.cancelling.Store(true)
	_ = h.c.CancelRequest(ctx) // if it fails, the deadline closes the connection
	h.l.cancelling.Store(false)
}

// HandleUnwatchAfterCancel implements [ctxwatch.Handler].
func (h *canceller) HandleUnwatchAfterCancel() {
	close(h.over)
	<-h.done
	_ = h.c.Conn().SetDeadline(time.Time{})
}

// settle checks a connection after a statement that ended with err, and reports whether the next statement may use it.
// It closes the connection if a cancel request did not end the statement: the request may still be in flight and would
// hit the next statement.
func settle(c *pgxpool.Conn, err error) bool {
	l := linkOf(c.Conn())
	late := l.cancelled
	l.cancelled = false
	if e := pgError(err); late && (e == nil || e.Code != codeCancelled) {
		closeConn(c.Conn())
	}
	return !c.Conn().IsClosed()
}
