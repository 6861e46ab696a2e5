package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// confirmTimeout is how long a server may take to acknowledge a confirmation before another one is tried.
const confirmTimeout = 3 * time.Second

// Confirm implements [backend.Shared]. It is one round trip: what it writes is the member's own row, so that replicas
// do not wait for each other, and what it reads is read before its COMMIT is answered.
func (b *Backend) Confirm(ctx context.Context, m backend.Member) (h backend.Head, err error) {
	if err := b.usable(ctx); err != nil {
		return h, err
	}
	for range 2 {
		if h, err = b.confirmOnce(ctx, m); err == nil || ctx.Err() != nil {
			break
		}
		b.resetPools() // the server may have been replaced
	}
	return h, b.translate(ctx, "confirm that the server is the primary", err)
}

func (b *Backend) confirmOnce(ctx context.Context, m backend.Member) (h backend.Head, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	c, err := b.control.pool.Acquire(ctx)
	if err != nil {
		return h, err
	}
	defer func() { giveBack(c, err) }()
	known := linkOf(c.Conn())
	known.warning.Store(nil)
	known.committing.Store(true) // there is a COMMIT in it
	defer known.committing.Store(false)
	began := time.Now()
	var l loader
	l.add(nil, beginSQL)
	l.add(nil, b.features.bounds)
	l.add(nil, touchMember, memberRow(m)...)
	l.add(func(s *scanner) error { h = head(s); return nil }, b.features.head)
	l.add(nil, b.features.unbound)
	l.add(nil, "COMMIT")
	err = l.run(ctx, c.Conn())
	warning := known.warning.Load()
	switch {
	case err == nil && warning == nil && l.tag == "COMMIT":
		b.servers.acknowledged(h.Origin, began)
		return h, nil
	case err == nil && warning == nil:
		err = fmt.Errorf("%w: the server answers %s", backend.ErrUnavailable, l.tag)
	case err == nil:
		err = fmt.Errorf("%w: the server answers COMMIT with a warning: %s", backend.ErrUnavailable, warning.Message)
	}
	if !refused(err) {
		b.servers.doubt(known.place)
	}
	return h, err
}
