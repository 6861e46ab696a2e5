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
	// lockedTimeout is what the server allows a transaction of ours for a lock and for a statement, and all together from when it
	// has the clock on.
	lockedTimeout = 5 * time.Second
	// silenceTimeout is what it allows a client for saying nothing, and TCP for being out of reach, inside a transaction. It is
	// less than those who wait for the clock wait: they get it, instead of an error.
	silenceTimeout = 4 * time.Second
	// beginTimeout bounds the first round trip of a write: the wait for the clock and the statements behind it.
	beginTimeout = lockedTimeout + 2*time.Second
	// commitTimeout is how long a COMMIT is waited for, before nobody can tell what becomes of it.
	commitTimeout = 10 * time.Second
	// endTimeout bounds a ROLLBACK.
	endTimeout = 2 * time.Second
	// grace is how long a statement whose context has ended may still come to its end. Most do, which saves the connection.
	grace = 300 * time.Millisecond
)

// link is what is known of one connection besides what pgx knows.
type link struct {
	// established says that the connection is made: no other is dialled for it. pgx would, to cancel what is under way when a
	// connection breaks or a context ends, and a COMMIT that waits for a synchronous standby must not be cancelled: the server would
	// take it for committed, and no standby would have it.
	established atomic.Bool
	// warning is the last one that the server sent.
	warning atomic.Pointer[pgconn.Notice]
}

var errNoCancel = errors.New("statements are not cancelled")

const linkKey = "sqlstore.link"

// linkOf returns what [prepare] has put beside the connection.
func linkOf(c *pgx.Conn) *link {
	l, _ := c.PgConn().CustomData()[linkKey].(*link)
	return l
}

// prepare makes the configuration of one connection.
func (b *Backend) prepare(_ context.Context, cc *pgx.ConnConfig) error {
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
	l := &link{}
	dial := cc.DialFunc
	cc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.established.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, addr)
	}
	cc.AfterConnect = func(_ context.Context, pc *pgconn.PgConn) error {
		l.established.Store(true)
		pc.CustomData()[linkKey] = l
		return nil
	}
	cc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" || n.SeverityUnlocalized == "" {
			l.warning.Store(n)
		}
	}
	cc.BuildContextWatcherHandler = func(pc *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pc.Conn(), DeadlineDelay: grace}
	}
	return nil
}
