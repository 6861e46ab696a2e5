package postgres

import (
	"context"
	"time"
)

// How long a read of the head, or of the tail, may take before it is sent again on a new connection. A tail may have
// many rows.
const (
	headPatience = time.Second
	tailPatience = 3 * time.Second
)

// hedged returns the answer to a read that all others wait for. If the statement of pooled takes longer than patience,
// apart sends it on a connection of its own as well: one that leads through a firewall which has forgotten it, or to a
// stopped server process, hangs while others work. If apart succeeds first, the lane's idle connections may hang, too,
// and are replaced. Its failure does not matter. One such read runs at a time.
func hedged[T any](
	ctx context.Context, b *Backend, patience time.Duration, pooled func(context.Context, lane) (T, error),
	apart func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers, others := make(chan answer, 1), make(chan answer, 1)
	acquired := make(chan struct{}, 1)
	l := b.control
	l.acquired = acquired
	go func() {
		value, err := pooled(ctx, l)
		answers <- answer{value, err}
	}()
	var late <-chan time.Time
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-acquired:
			late = time.After(patience)
		case <-late:
			if !b.apart.CompareAndSwap(false, true) {
				continue
			}
			go func() {
				defer b.apart.Store(false)
				value, err := apart(ctx)
				others <- answer{value, err}
			}()
			acquired, late = nil, nil // once
		case a := <-others:
			if a.err == nil {
				b.control.pool.Reset()
				return a.value, nil
			}
		}
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
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = c.Close(closing)
	}()
	return b.control.scan(ctx, c, each, sql, args)
}
