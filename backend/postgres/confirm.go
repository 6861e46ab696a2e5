package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// confirmTimeout is how long a server may take to acknowledge a confirmation before another one is tried.
const confirmTimeout = 3 * time.Second

// Confirm implements [backend.Shared]. It takes one round trip. It writes only the member's own row, so that replicas
// do not wait for each other, and it reads the head before its COMMIT is acknowledged.
func (b *Backend) Confirm(ctx context.Context, m backend.Member) (h backend.Head, err error) {
	if err := b.usable(ctx); err != nil {
		return h, err
	}
	for range 2 {
		if h, err = b.confirmOnce(ctx, m); err == nil || ctx.Err() != nil {
			break
		}
		if !errors.Is(err, errBusy) {
			b.resetPools() // the server may have been replaced
		}
	}
	if err == nil {
		err = found(h.Clock)
	}
	return h, b.translate(ctx, "confirm that the server is the primary", err)
}

// confirmOnce adds m to the members again if others considered it dead and removed it. It does so only after it has
// seen that m's row is gone, because the server may execute a statement long after m has left.
func (b *Backend) confirmOnce(ctx context.Context, m backend.Member) (h backend.Head, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	h, wrote, err := b.confirmBy(ctx, touchMember, int64(m.ID))
	if err == nil && !wrote {
		h, _, err = b.confirmBy(ctx, upsertMember+" RETURNING id", memberRow(m)...)
	}
	return h, err
}

// confirmBy runs sql, which writes, and reads the head in the same transaction. It reports whether sql wrote anything:
// only then does the commit confirm the server.
func (b *Backend) confirmBy(ctx context.Context, sql string, args ...any) (h backend.Head, wrote bool, err error) {
	c, err := b.control.acquire(ctx)
	if err != nil {
		return h, false, err
	}
	defer func() { b.control.release(c, err) }()
	known := linkOf(c.Conn())
	known.warning.Store(nil)
	known.committing.Store(true) // the batch contains a COMMIT
	defer known.committing.Store(false)
	began := time.Now()
	var l loader
	l.add(nil, beginSQL)
	l.add(nil, b.features.bounds)
	l.add(func(*scanner) error { wrote = true; return nil }, sql, args...)
	l.add(func(s *scanner) error { h = head(s); return nil }, b.features.head)
	l.add(nil, b.features.unbound)
	l.add(nil, "COMMIT")
	err = l.run(ctx, c.Conn())
	warning := known.warning.Load()
	switch {
	case err == nil && warning == nil && l.tag == "COMMIT":
		if wrote {
			b.servers.acknowledged(h.Origin, began)
		}
		return h, wrote, nil
	case err == nil && warning == nil:
		err = fmt.Errorf("%w: the server answers %s", backend.ErrUnavailable, l.tag)
	case err == nil:
		err = fmt.Errorf("%w: the server answers COMMIT with a warning: %s", backend.ErrUnavailable, warning.Message)
	}
	if !refused(err) {
		b.servers.doubt(known.place)
	}
	return h, false, err
}
