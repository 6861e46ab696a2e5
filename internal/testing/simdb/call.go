package simdb

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// errRefused is the answer of a server to a statement that it ended.
var errRefused = errors.New("canceling statement due to statement timeout")

// tries is how often a request is sent if its connection turns out to be broken.
const tries = 3

// sleep waits for d. Errors: ctx's.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrive waits until a request is at the server, and the server acts on it. A network that is cut off delays it: it is
// sent again.
func (b *Client) arrive(ctx context.Context, r *run, f Fate) error {
	if err := sleep(ctx, f.Before); err != nil {
		return err
	}
	switch {
	case f.Lost:
		<-ctx.Done()
		return ctx.Err()
	case f.Refused:
		return errRefused
	case f.Broken:
		return errBroken
	}
	return b.reach(ctx, r)
}

// answer waits until the answer to a request is here.
func (b *Client) answer(ctx context.Context, r *run, f Fate) error {
	if f.LostAnswer {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := sleep(ctx, f.After); err != nil {
		return err
	}
	return b.reach(ctx, r)
}

// reach waits until the server runs and its link to the client works.
func (b *Client) reach(ctx context.Context, r *run) error {
	c := b.cluster
	return c.await(ctx, r, func() bool { return !r.server.frozen && !c.cut[link{b.number, r.server.number}] })
}

// read runs a read-only statement, on what is visible. f is called with Cluster.mu held.
func (b *Client) read(
	ctx context.Context, doing string, f func(s *server, st *state) error,
) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var err error
	for range tries {
		var r *run
		if r, err = b.connect(limited); err == nil {
			fate := b.fate(doing)
			if err = b.arrive(limited, r, fate); err == nil {
				b.cluster.mu.Lock()
				if err = errBroken; r.server.run == r {
					err = f(r.server, r.server.visible)
				}
				b.cluster.mu.Unlock()
			}
			if err == nil {
				err = b.answer(limited, r, fate)
			}
		}
		if !errors.Is(err, errBroken) {
			break
		}
		b.reset()
	}
	if limited.Err() != nil && ctx.Err() == nil {
		b.reset()
	}
	return b.translate(ctx, doing, err)
}

// work is what a transaction does: it takes locks with take, which may be nil, and then runs step on a copy of the
// newest state, which becomes the newest one unless step fails. The server s shows what is visible.
type work[T any] struct {
	// trips is how many round trips come between the locks and the COMMIT. If the client gives up in the meantime,
	// there is no COMMIT.
	trips int
	take  func(context.Context, *transaction) error
	// late takes further locks after the round trips; it may be nil.
	late func(context.Context, *transaction) error
	step func(s *server, st *state, now time.Time) (T, error)
}

// outcome is the server's answer.
type outcome[T any] struct {
	value  T
	origin backend.Origin
	err    error
}

// write runs a transaction. The server finishes it even if the client has given up, so it may have committed although
// write returns an error.
func write[T any](ctx context.Context, b *Client, doing string, timeout time.Duration, w work[T]) (T, error) {
	var o outcome[T]
	if err := b.usable(ctx); err != nil {
		return o.value, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for range tries {
		var sent bool
		if o, sent = writeOnce(limited, b, doing, w); sent || !errors.Is(o.err, errBroken) {
			break
		}
	}
	return o.value, b.translate(ctx, doing, o.err)
}

// writeOnce makes one attempt. It reports whether a COMMIT may have been sent.
func writeOnce[T any](ctx context.Context, b *Client, doing string, w work[T]) (o outcome[T], sent bool) {
	r, err := b.connect(ctx)
	if err != nil {
		o.err = err
		return o, false
	}
	fate := b.fate(doing)
	if fate.Broken || fate.Refused || fate.Lost {
		if o.err = b.arrive(ctx, r, fate); !errors.Is(o.err, errRefused) {
			b.reset()
		}
		return o, false
	}
	done := make(chan outcome[T], 1)
	began := time.Now()
	go func() { done <- perform(ctx, b, r, doing, fate, w) }()
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = ctx.Err()
	}
	if o.err == nil {
		o.err = b.answer(ctx, r, fate)
	}
	switch {
	case o.err == nil:
		b.acknowledged(o.origin, began)
	case errors.Is(o.err, errBroken), ctx.Err() != nil:
		b.doubt(r)
		return o, true
	}
	return o, o.err == nil
}

// perform is what the server does, and the client's part until the COMMIT. Once a COMMIT is sent, the server carries it
// out.
func perform[T any](
	ctx context.Context, b *Client, r *run, doing string, fate Fate, w work[T],
) (o outcome[T]) {
	if w.trips == 0 {
		ctx = context.Background()
	}
	if o.err = b.arrive(ctx, r, fate); o.err != nil {
		return o
	}
	x := &transaction{run: r}
	if w.take != nil {
		o.err = w.take(ctx, x)
	}
	for range w.trips {
		if o.err == nil {
			o.err = b.trip(ctx, r, doing+" trip")
		}
	}
	if o.err == nil && w.late != nil {
		o.err = w.late(ctx, x)
	}
	if o.err != nil {
		b.cluster.mu.Lock()
		defer b.cluster.mu.Unlock()
		x.unlock()
		return o
	}
	o.err = x.step(func(st *state, now time.Time) (err error) {
		o.origin = r.server.origin()
		o.value, err = w.step(r.server, st, now)
		return err
	})
	return o
}

// trip is a round trip within a transaction.
func (b *Client) trip(ctx context.Context, r *run, kind string) error {
	fate := b.fate(kind)
	err := b.arrive(ctx, r, fate)
	if err == nil {
		err = b.answer(ctx, r, fate)
	}
	return err
}
