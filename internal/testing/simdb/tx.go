package simdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// tx is a transaction that holds the clock.
type tx struct {
	b      *Client
	x      *transaction
	loaded *backend.Loaded
	ended  bool
	silent *time.Timer // ends the transaction on the server
}

// Begin implements [backend.Backend].
func (b *Client) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if err := b.usable(ctx); err != nil {
		return nil, err
	}
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.closing:
		return nil, backend.ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	err := b.usable(ctx)
	for range tries {
		if err != nil && !errors.Is(err, errBroken) {
			break
		}
		var t *tx
		if t, err = b.begin(limited, &n); err == nil {
			return t, nil
		}
	}
	<-b.turn
	if errors.Is(err, errLockTimeout) {
		err = fmt.Errorf("begin a write: %w: %w: %w", backend.ErrClockHeld, backend.ErrUnavailable, err)
	}
	return nil, b.translate(ctx, "begin a write", err)
}

// begin makes one attempt.
func (b *Client) begin(ctx context.Context, n *backend.Needs) (*tx, error) {
	r, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	fate := b.fate("begin")
	if err = b.arrive(ctx, r, fate); err != nil {
		if !errors.Is(err, errRefused) {
			b.reset()
		}
		return nil, err
	}
	t := &tx{b: b, x: &transaction{run: r}}
	if err = t.take(ctx, n); err == nil {
		err = t.load(n)
	}
	if err != nil {
		t.abort()
		if errors.Is(err, errBroken) || ctx.Err() != nil {
			b.reset()
		}
		return nil, err
	}
	t.silent = time.AfterFunc(silenceTimeout, t.abort)
	if err = b.answer(ctx, r, fate); err != nil { // the server ends the transaction by itself
		b.reset()
		return nil, err
	}
	return t, nil
}

// take locks the clock and leases.
func (t *tx) take(ctx context.Context, n *backend.Needs) error {
	if err := t.x.acquire(ctx, clockLock); err != nil {
		return err
	}
	return t.x.leases(ctx, n.Leases)
}

// leases locks leases in the order of their ids.
func (x *transaction) leases(ctx context.Context, ids []int64) error {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if err := x.acquire(ctx, leaseLock(id)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) load(n *backend.Needs) (err error) {
	s := t.x.run.server
	t.b.cluster.mu.Lock()
	defer t.b.cluster.mu.Unlock()
	if s.run != t.x.run {
		return errBroken
	}
	if t.loaded, err = s.visible.load(n); err != nil {
		return err
	}
	if n.Tail != nil {
		t.loaded.Tail.Origin = s.origin()
	}
	if len(n.Leases) > 0 {
		t.loaded.Leases = s.visible.leaseStates(n.Leases, s.now())
	}
	return nil
}

// abort ends the transaction on the server without a change.
func (t *tx) abort() {
	t.b.cluster.mu.Lock()
	defer t.b.cluster.mu.Unlock()
	t.x.unlock()
}

// Loaded implements [backend.Tx].
func (t *tx) Loaded() *backend.Loaded { return t.loaded }

// Tail implements [backend.SharedTx].
func (t *tx) Tail(ctx context.Context, q backend.TailQuery) (tail backend.Tail, err error) {
	if t.ended {
		return tail, fmt.Errorf("read the tail: %w: the transaction has ended", backend.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, lockedTimeout)
	defer cancel()
	r, fate := t.x.run, t.b.fate("locked tail")
	if err = t.b.arrive(ctx, r, fate); err == nil {
		t.b.cluster.mu.Lock()
		if err = errBroken; !t.x.over && r.server.run == r {
			tail, err = r.server.visible.tail(q), nil
			tail.Origin = r.server.origin()
			t.silent.Reset(silenceTimeout)
		}
		t.b.cluster.mu.Unlock()
	}
	if err == nil {
		err = t.b.answer(ctx, r, fate)
	}
	return tail, t.b.translate(ctx, "read the tail", err)
}

// Rollback implements [backend.Tx].
func (t *tx) Rollback() {
	if !t.ended {
		t.ended = true
		t.silent.Stop()
		t.abort()
		<-t.b.turn
	}
}

// Commit implements [backend.Tx].
func (t *tx) Commit(_ context.Context, e *backend.Effects) error {
	if t.ended {
		return fmt.Errorf("commit: %w: the transaction has ended", backend.ErrUnavailable)
	}
	t.ended = true
	defer func() { <-t.b.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	r, fate, fx := t.x.run, t.b.fate("commit"), copied(e)
	done := make(chan outcome[struct{}], 1)
	began := time.Now()
	go func() { done <- t.perform(ctx, fate, fx) }()
	var o outcome[struct{}]
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = ctx.Err()
	}
	if o.err == nil {
		o.err = t.b.answer(ctx, r, fate)
	}
	switch err := o.err; {
	case err == nil:
		t.b.acknowledged(o.origin, began)
		return nil
	case errors.Is(err, backend.ErrConflict):
		t.b.reset()
		return fmt.Errorf("commit: %w", err)
	case errors.Is(err, backend.ErrRejected), errors.Is(err, backend.ErrNoSpace):
		return fmt.Errorf("commit: %w", err)
	case errors.Is(err, errRefused):
		return fmt.Errorf("commit: %w: %w", backend.ErrUnavailable, err)
	}
	t.b.doubt(r)
	return fmt.Errorf("commit: %w: %w", backend.ErrUnknownOutcome, o.err)
}

// errGone is the answer to a client that was silent for too long.
var errGone = fmt.Errorf("%w: %w: the server has ended the transaction", backend.ErrConflict, backend.ErrUnavailable)

// perform is what the server does with a COMMIT. If the client gives up before it arrives, it arrives all the same.
func (t *tx) perform(ctx context.Context, fate Fate, e *backend.Effects) (o outcome[struct{}]) {
	s := t.x.run.server
	if !fate.Lost {
		ctx = context.Background()
	}
	if o.err = t.b.arrive(ctx, t.x.run, fate); o.err != nil {
		if errors.Is(o.err, errRefused) {
			t.silent.Stop()
			t.abort()
		}
		return o
	}
	t.silent.Stop()
	s.cluster.mu.Lock()
	gone := t.x.over && s.run == t.x.run
	s.cluster.mu.Unlock()
	if gone {
		o.err = errGone
		return o
	}
	o.err = t.x.step(func(st *state, now time.Time) error {
		o.origin = s.origin()
		if s.full && len(e.Rows) > 0 {
			return backend.ErrNoSpace
		}
		return st.apply(e, now)
	})
	return o
}
