package store

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// keptTurns returns turns of which one is free, a result of the given size that is kept for a caller, and a channel of
// the callers that get disconnected.
func keptTurns(t *testing.T, bytes int64) (*turns, *Kept, chan any) {
	t.Helper()
	hungUp := make(chan any, 1)
	q := newTurns(func(ctx context.Context) any { return ctx.Value(callerKey{}) },
		func(caller any) { hungUp <- caller })
	q.free = 1
	ctx := as(t.Context(), "slow")
	turn, err := q.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	k := turn.Keep(ctx, bytes)
	k.timer.Stop() // the test calls look
	turn.End()
	return q, k, hungUp
}

// waits starts a read that has to wait and returns a channel for its error.
func waits(t *testing.T, q *turns) chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		turn, err := q.take(as(within(t), "other"))
		turn.End()
		done <- err
	}()
	inLine(t, q, "other", 1)
	return done
}

// Long reads wait while too much of what others have read waits for its clients.
func TestResultsThatNobodyTakes(t *testing.T) {
	q, k, _ := keptTurns(t, keptMost+10)
	done := waits(t, q)
	k.Release(10)
	inLine(t, q, "other", 1)
	k.Release(1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	k.Release(2 * keptMost)
	if q.kept != 0 || k.Bytes() != 0 || q.free != 1 {
		t.Errorf("%d bytes kept, %d turns free", q.kept, q.free)
	}
}

// A reservation waits for room before its result exists, with or without a turn. Encoding that result then waits for a
// turn but not for room.
func TestRoomForResultsToCome(t *testing.T) {
	q, k, _ := keptTurns(t, keptMost)
	ctx := as(within(t), "other")
	q.free = 0
	reserved := make(chan *Kept, 1)
	reserve := func(ctx context.Context) {
		r, err := q.reserve(ctx, 3*keptMost)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		reserved <- r
	}
	gone, leave := context.WithCancel(ctx)
	go reserve(gone)
	inLine(t, q, "other", 1)
	leave()
	if <-reserved != nil {
		t.Error("a canceled reservation got room")
	}
	go reserve(ctx)
	inLine(t, q, "other", 1)
	go reserve(ctx)
	inLine(t, q, "other", 2)
	k.Release(keptMost)
	first := <-reserved
	inLine(t, q, "other", 1) // the first exceeds all room, so it is alone
	if n := first.Bytes(); n != 3*keptMost || q.kept != n {
		t.Fatalf("%d bytes are kept for a reservation of %d", q.kept, n)
	}
	left := make(chan error, 2)
	encode := func(ctx context.Context, k *Kept) {
		turn, err := k.turn(ctx)
		turn.End()
		left <- err
	}
	gone, leave = context.WithCancel(ctx)
	go encode(gone, first)
	inLine(t, q, "other", 2)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go encode(ctx, first)
	inLine(t, q, "other", 2)
	q.mu.Lock()
	q.over()
	q.mu.Unlock()
	second := <-reserved
	encode(ctx, second)
	if err := errors.Join(<-left, <-left); err != nil {
		t.Error(err)
	}
	if q.kept != 0 || len(q.holding) != 0 || q.free != 1 {
		t.Errorf("%d bytes kept for %v, %d turns free", q.kept, q.holding, q.free)
	}
}

// Turns alternate between long reads and the encoding of results that already count.
func TestEncodingAndReadsAlternate(t *testing.T) {
	q, first := oneTurn(t)
	ctx := as(within(t), "caller")
	var (
		wg    sync.WaitGroup
		order []string // guarded by the turn
	)
	for i := range 3 {
		k, err := q.reserve(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		for what, take := range map[string]func(context.Context) (*Turn, error){"encode": k.turn, "read": q.take} {
			wg.Go(func() {
				turn, err := take(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, what)
				turn.End()
			})
		}
		inLine(t, q, "caller", 2*i+2)
	}
	first.End()
	wg.Wait()
	for i, what := range order[2:] {
		if what != order[i] {
			t.Fatalf("turns went in the order %v", order)
		}
	}
	if order[0] == order[1] || q.kept != 0 || q.free != 1 {
		t.Errorf("order %v, %d bytes kept, %d turns free", order, q.kept, q.free)
	}
}

// One caller's results leave room for those of others.
func TestResultsOfOneCaller(t *testing.T) {
	q, k, _ := keptTurns(t, keptShared)
	own, leave := context.WithCancel(as(t.Context(), "slow"))
	left := make(chan error, 1)
	go func() {
		_, err := q.take(own)
		left <- err
	}()
	inLine(t, q, "slow", 1)
	for range 2 { // directly, and from the queue past the caller that has to wait
		turn, err := q.take(as(within(t), "other"))
		if err != nil {
			t.Fatal(err)
		}
		done := waits(t, q)
		turn.End()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller with many untaken bytes starts another read: %v", err)
	}
	k.Release(keptShared)
	if q.kept != 0 || len(q.holding) != 0 || q.free != 1 || len(q.reads.callers) != 0 {
		t.Errorf("%d bytes kept for %v, %d turns free, %v wait", q.kept, q.holding, q.free, q.reads.callers)
	}
}

// A client that takes less than half of its result in the allowed time is disconnected, but only if others wait in
// vain.
func TestHangUpOnWhoTakesLittle(t *testing.T) {
	q, k, hungUp := keptTurns(t, 4*keptMost)
	k.look()
	own, leave := context.WithCancel(as(t.Context(), "slow"))
	left := make(chan error, 1)
	go func() {
		_, err := q.take(own)
		left <- err
	}()
	inLine(t, q, "slow", 1)
	k.Release(1)
	k.look() // only the caller itself waits
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := waits(t, q)
	k.Release(2 * keptMost)
	k.look() // it has taken half
	flow := q.keep(as(t.Context(), "fast"), keptFlow)
	flow.Release(keptFlow)
	k.Release(1)
	k.look() // it takes a little while others take much
	if len(hungUp) > 0 || k.Bytes() == 0 {
		t.Error("disconnected a client that blocks no other client or is entitled to more time")
	}
	k.Release(keptMost / 4)
	k.look()
	if caller := <-hungUp; caller != "slow" {
		t.Errorf("disconnected %v", caller)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	k.Release(5) // gRPC frees the rest later
	if q.kept != 0 {
		t.Errorf("%d bytes are kept", q.kept)
	}
}
