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

// Timeouts. Together they keep every wait for a hung server short.
const (
	connectTimeout = 3 * time.Second
	// readTimeout limits a statement outside our transactions, all its attempts together.
	readTimeout = 8 * time.Second
	// lockedTimeout is how long the server lets one of our transactions wait for a lock, run a statement, and hold the
	// clock in total.
	lockedTimeout = 5 * time.Second
	// silenceTimeout is how long the server lets a client stay idle, and TCP lets it be unreachable, inside a
	// transaction. It is less than the time that others wait for the clock, so that they get the clock instead of an
	// error.
	silenceTimeout = 4 * time.Second
	// beginTimeout limits the first round trip of a write: the wait for the clock and the statements that follow.
	beginTimeout = lockedTimeout + 2*time.Second
	// commitTimeout is how long to wait for a COMMIT before its outcome counts as unknown.
	commitTimeout = 10 * time.Second
	// endTimeout limits a ROLLBACK.
	endTimeout = 2 * time.Second
	// grace is how long a COMMIT whose context has ended may take to finish, and how long closing a connection may
	// take.
	grace = 300 * time.Millisecond
)

// link is the state of one connection that pgx does not track.
type link struct {
	// established is set once the connection is made; from then on pgx may not dial for it. It would dial to cancel the
	// statement in progress when a connection breaks, and that may be a COMMIT. See [canceller] for how other
	// statements are cancelled.
	established atomic.Bool
	// cancelling allows one more dial, for the request to cancel a statement that is not a COMMIT.
	cancelling atomic.Bool
	// committing is set while a COMMIT is in progress, which no request may cancel.
	committing atomic.Bool
	// cancelled is set if such a request was sent since the last statement. Only the holder of the connection uses it.
	cancelled bool
	// direct is set if the connection leads directly to a server process, so that the session is ours alone.
	direct bool
	// place is the server that the connection leads to, zero if it is unknown.
	place  place
	socket *socket
	// connectedAt is when the connection was made, if place is known.
	connectedAt time.Time
	// warning is the last warning that the server sent.
	warning atomic.Pointer[pgconn.Notice]
}

var errNoCancel = errors.New("a COMMIT is not cancelled")

// closeConn closes a connection, whose server has grace to take notice.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = c.Close(ctx)
}

const linkKey = "sqlstore.link"

// linkOf returns the link that [Backend.prepareLink] has attached to the connection.
func linkOf(c *pgx.Conn) *link {
	l, _ := c.PgConn().CustomData()[linkKey].(*link)
	return l
}

// prepareCancelling prepares the configuration of a connection of the pools.
func (b *Backend) prepareCancelling(_ context.Context, cc *pgx.ConnConfig) error {
	l := &link{}
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler { return &canceller{c: pc, l: l} }
	return b.prepareLink(l, cc)
}

// prepare prepares the configuration of a connection on which no statement is cancelled.
func (b *Backend) prepare(cc *pgx.ConnConfig) error {
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pc.Conn(), DeadlineDelay: grace}
	}
	return b.prepareLink(&link{}, cc)
}

func readPassword(file string) (string, error) {
	password, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the database's password: %w", err)
	}
	return strings.TrimRight(string(password), "\r\n"), nil
}

// prepareLink prepares the configuration of one connection and attaches l to it.
func (b *Backend) prepareLink(l *link, cc *pgx.ConnConfig) error {
	if b.cfg.PasswordFile != "" {
		var err error
		if cc.Password, err = readPassword(b.cfg.PasswordFile); err != nil {
			return err
		}
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
			l.connectedAt = time.Now()
			b.servers.connected(l.place, l.socket)
		}
		pc.CustomData()[linkKey] = l
		return nil
	}
	closeFatal := cc.OnPgError
	cc.OnPgError = func(c *pgconn.PgConn, e *pgconn.PgError) bool {
		if e.Code == codeFull {
			b.full.Store(&refusedConn{time.Now(), e.Message})
		}
		return closeFatal(c, e)
	}
	cc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" || n.SeverityUnlocalized == "" {
			l.warning.Store(n)
		}
	}
	return nil
}
