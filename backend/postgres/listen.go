package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// probeTime is how long to wait for the notification that shows whether any arrive.
	probeTime = time.Second
	// Waits between two attempts to connect.
	firstWait, longestWait = 100 * time.Millisecond, 5 * time.Second
	// unsupportedWait is how long to wait after the server, or a pooler, has shown that it does not support
	// notifications. That may have been an error, and another server may take its place.
	unsupportedWait = time.Minute
	// quietTime is how long the connection may be silent before it is pinged.
	quietTime = 5 * time.Second
)

// errDeaf is returned if LISTEN succeeds but notifications never arrive.
var errDeaf = errors.New("notifications do not arrive: there is a pooler in transaction mode before the server")

// errOtherServer is returned when the connection for notifications leads to a server that was replaced.
var errOtherServer = errors.New("another server has become the primary")

// sendHint notifies in a transaction that does not wait for the disk or a standby: until a transaction that notifies
// has committed, no other that notifies can commit, in any database of the server.
const sendHint = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)"

// Hint implements [backend.Shared]. It sends none for a while after the server has refused one.
func (b *Backend) Hint(ctx context.Context, revision, compacted int64) error {
	after := b.hintsAfter.Load()
	if after > time.Now().UnixNano() {
		return nil
	}
	err := b.notify(ctx, payload(b.settings.MemberID, revision, compacted))
	e := pgError(err)
	switch {
	case err == nil && after != 0:
		b.hintsAfter.Store(0)
		b.log.Info("the database server accepts notifications again")
	case unsupported(err) || e != nil && e.Code == codeNoRight:
		if b.hintsAfter.Store(time.Now().Add(unsupportedWait).UnixNano()); after == 0 {
			b.log.Warn("the database server refuses notifications; other replicas find what was written by polling",
				"error", err)
		}
		return nil
	}
	return err
}

func (b *Backend) notify(ctx context.Context, payload string) error {
	return b.control.query(ctx, "notify", nil, func(*scanner) error { return nil }, sendHint, b.features.channel,
		payload)
}

// Listen implements [backend.Shared]. It uses a separate connection.
func (b *Backend) Listen(ctx context.Context, hint func(revision, compacted int64), state func(listening bool)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-b.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait, broken := firstWait, false
	for ctx.Err() == nil {
		err := b.listen(ctx, hint, func() {
			if broken {
				b.log.Info("notifications arrive again")
			}
			wait, broken = firstWait, false
			state(true)
		})
		if ctx.Err() != nil {
			return
		}
		none := errors.Is(err, errDeaf) || unsupported(err)
		if !broken { // otherwise already reported
			state(false)
			if none {
				b.log.Info("no notifications from the database server; what others write is found by polling", "error",
					err)
			} else {
				b.log.Warn("no connection for notifications; what others write is found by polling until there is one",
					"error", err)
			}
		}
		if broken = true; none {
			wait = unsupportedWait
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, longestWait)
	}
}

// listen listens on one connection until it breaks.
func (b *Backend) listen(ctx context.Context, hint func(revision, compacted int64), listening func()) error {
	b.listens.Add(1)
	cc := b.dsn.Copy()
	if err := b.prepare(cc); err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(connecting, cc)
	if err != nil {
		return err
	}
	defer closeConn(c)
	if _, err := c.Exec(connecting, `LISTEN "`+b.features.channel+`"`); err != nil {
		return err
	}
	if err := b.probe(connecting, c); err != nil {
		return err
	}
	listening()
	for {
		quiet, cancel := context.WithTimeout(ctx, quietTime)
		n, err := c.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			if member, revision, compacted, ok := parsePayload(n.Payload); ok && member != b.settings.MemberID {
				hint(revision, compacted)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case quiet.Err() == nil || c.IsClosed():
			return err
		default:
			if !b.servers.current(linkOf(c).place) {
				return errOtherServer
			}
			asking, cancel := context.WithTimeout(ctx, connectTimeout)
			err := c.Ping(asking)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// payload returns the payload of a hint: the member that committed, the revision and, if it moved, the compacted
// revision.
func payload(member uint64, revision, compacted int64) string {
	s := strconv.FormatUint(member, 16) + " " + strconv.FormatInt(revision, 10)
	if compacted != 0 {
		s += " " + strconv.FormatInt(compacted, 10)
	}
	return s
}

func parsePayload(s string) (member uint64, revision, compacted int64, ok bool) {
	who, at, _ := strings.Cut(s, " ")
	at, below, moved := strings.Cut(at, " ")
	member, err := strconv.ParseUint(who, 16, 64)
	if err == nil {
		revision, err = strconv.ParseInt(at, 10, 64)
	}
	if err == nil && moved {
		compacted, err = strconv.ParseInt(below, 10, 64)
	}
	return member, revision, compacted, err == nil
}

// probe finds out whether notifications arrive. On a connection that leads directly to a server process they do.
// Through a pooler, probe sends one and waits for it. It must come from another connection: on the same one, the pooler
// would pass it on with the answer to the statement that sent it.
func (b *Backend) probe(ctx context.Context, c *pgx.Conn) error {
	if is, err := direct(ctx, c); is || err != nil {
		return err
	}
	if err := b.notify(ctx, "probe"); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := c.WaitForNotification(waiting); err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			// The server session still listens, for whichever client the pooler assigns it to next.
			if !c.IsClosed() {
				_, _ = c.Exec(ctx, "UNLISTEN *")
			}
			return errDeaf
		}
		return err
	}
	return nil
}
