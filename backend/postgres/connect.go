package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// Bounds in time. Together they keep every wait for a server that hangs short.
const (
	connectTimeout = 3 * time.Second
	// readTimeout bounds a statement outside a transaction of ours, and the tries of it together.
	readTimeout = 8 * time.Second
	// lockedTimeout is what the server allows a transaction of ours for a lock and for a statement, and all together
	// from when it has the clock on.
	lockedTimeout = 5 * time.Second
	// silenceTimeout is what it allows a client for saying nothing, and TCP for being out of reach, inside a
	// transaction. It is less than those who wait for the clock wait: they get it, instead of an error.
	silenceTimeout = 4 * time.Second
	// beginTimeout bounds the first round trip of a write: the wait for the clock and the statements behind it.
	beginTimeout = lockedTimeout + 2*time.Second
	// commitTimeout is how long a COMMIT is waited for, before nobody can tell what becomes of it.
	commitTimeout = 10 * time.Second
	// endTimeout bounds a ROLLBACK.
	endTimeout = 2 * time.Second
	// grace is how long a COMMIT whose context has ended may still come to its end, and a connection to be closed.
	grace = 300 * time.Millisecond
)

// link is what is known of one connection besides what pgx knows.
type link struct {
	// established says that the connection is made: pgx dials no other for it. It would, to cancel what is under way
	// when a connection breaks, and that may be a COMMIT. See [canceller] for how other statements are cancelled.
	established atomic.Bool
	// cancelling allows one more, for the request to cancel a statement that is not a COMMIT.
	cancelling atomic.Bool
	// committing says that a COMMIT is under way, which no request may cancel.
	committing atomic.Bool
	// cancelled says that such a request was sent since the last statement. It is for whoever has the connection.
	cancelled bool
	// direct says that the connection leads straight to a server process, so that its session is ours.
	direct bool
	// place is the server that the connection leads to, zero where that is not known.
	place  place
	socket *socket
	// warning is the last one that the server sent.
	warning atomic.Pointer[pgconn.Notice]
}

var errNoCancel = errors.New("a COMMIT is not cancelled")

const linkKey = "sqlstore.link"

// linkOf returns what [Backend.prepareLink] has put beside the connection.
func linkOf(c *pgx.Conn) *link {
	l, _ := c.PgConn().CustomData()[linkKey].(*link)
	return l
}

// prepareCancelling makes the configuration of a connection of the pools.
func (b *Backend) prepareCancelling(_ context.Context, cc *pgx.ConnConfig) error {
	l := &link{}
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler { return &canceller{c: pc, l: l} }
	return b.prepareLink(l, cc)
}

// prepare makes the configuration of a connection on which no statement is cancelled.
func (b *Backend) prepare(cc *pgx.ConnConfig) error {
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pc.Conn(), DeadlineDelay: grace}
	}
	return b.prepareLink(&link{}, cc)
}

// prepareLink makes the configuration of one connection.
func (b *Backend) prepareLink(l *link, cc *pgx.ConnConfig) error {
	if b.cfg.PasswordFile != "" {
		password, err := os.ReadFile(b.cfg.PasswordFile)
		if err != nil {
			return fmt.Errorf("read the database's password: %w", err)
		}
		cc.Password = strings.TrimRight(string(password), "\r\n")
	}
	if b.pooled.Load() {
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	dial := cc.DialFunc
	cc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.established.Load() && !l.cancelling.Load() {
			return nil, errNoCancel
		}
		c, err := dial(ctx, network, addr)
		if err != nil || l.established.Load() {
			return c, err
		}
		l.socket = &socket{Conn: c, servers: &b.servers}
		return l.socket, nil
	}
	b.introduce(&cc.Config, l)
	cc.AfterConnect = func(_ context.Context, pc *pgconn.PgConn) error {
		l.established.Store(true)
		if (l.place != place{}) {
			b.servers.met(l.place, l.socket)
		}
		pc.CustomData()[linkKey] = l
		return nil
	}
	cc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" || n.SeverityUnlocalized == "" {
			l.warning.Store(n)
		}
	}
	return nil
}
