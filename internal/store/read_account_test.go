package store

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
)

// notSmall is the size of a result that is not small.
const notSmall = DefaultResultBytes/smallResults + 1

// testAdmission returns an admission with one free permit, a result of the given size that is charged to a caller, and
// a channel of the callers that get disconnected.
func testAdmission(t *testing.T, bytes int64) (*admission, *Account, chan any) {
	t.Helper()
	hungUp := make(chan any, 1)
	q := newAdmission(DefaultResultBytes, func(ctx context.Context) any { return ctx.Value(callerKey{}) },
		func(caller any) { hungUp <- caller })
	q.free = 1
	ctx := as(t.Context(), "slow")
	permit, err := q.acquire(ctx, notSmall)
	if err != nil {
		t.Fatal(err)
	}
	k := permit.Charge(ctx, bytes)
	k.timer.Stop() // the test calls check
	permit.End()
	return q, k, hungUp
}

// waits starts a read that has to wait and returns a channel for its error.
func waits(t *testing.T, q *admission) chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		permit, err := q.acquire(as(within(t), "other"), notSmall)
		permit.End()
		done <- err
	}()
	awaitWaiting(t, q, "other", 1)
	return done
}

// Long reads wait while too much of what others have read waits for its clients.
func TestUnreadResults(t *testing.T) {
	q, k, _ := testAdmission(t, DefaultResultBytes+10)
	done := waits(t, q)
	k.Release(10)
	awaitWaiting(t, q, "other", 1)
	k.Release(1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	k.Release(2 * DefaultResultBytes)
	if q.accounted != 0 || k.Bytes() != 0 || q.free != 1 {
		t.Errorf("%d bytes accounted for, %d permits free", q.accounted, q.free)
	}
}

// A reservation waits for memory before its result exists, with or without a permit. Encoding that result then waits
// for a permit but not for memory.
func TestReservationsWaitForMemory(t *testing.T) {
	q, k, _ := testAdmission(t, DefaultResultBytes)
	ctx := as(within(t), "other")
	q.free = 0
	reserved := make(chan *Account, 1)
	reserve := func(ctx context.Context) {
		r, err := q.reserve(ctx, 3*DefaultResultBytes)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		reserved <- r
	}
	gone, leave := context.WithCancel(ctx)
	go reserve(gone)
	awaitWaiting(t, q, "other", 1)
	leave()
	if <-reserved != nil {
		t.Error("a canceled reservation got memory")
	}
	go reserve(ctx)
	awaitWaiting(t, q, "other", 1)
	go reserve(ctx)
	awaitWaiting(t, q, "other", 2)
	k.Release(DefaultResultBytes)
	first := <-reserved
	awaitWaiting(t, q, "other", 1) // the first exceeds the limit, so it is alone
	if n := first.Bytes(); n != 3*DefaultResultBytes || q.accounted != n {
		t.Fatalf("%d bytes are charged for a reservation of %d", q.accounted, n)
	}
	left := make(chan error, 2)
	encode := func(ctx context.Context, k *Account) {
		permit, err := k.encode(ctx)
		permit.End()
		left <- err
	}
	gone, leave = context.WithCancel(ctx)
	go encode(gone, first)
	awaitWaiting(t, q, "other", 2)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go encode(ctx, first)
	awaitWaiting(t, q, "other", 2)
	q.mu.Lock()
	q.returned(0)
	q.mu.Unlock()
	second := <-reserved
	encode(ctx, second)
	if err := errors.Join(<-left, <-left); err != nil {
		t.Error(err)
	}
	if q.accounted != 0 || len(q.accounts) != 0 || q.free != 1 {
		t.Errorf("%d bytes for %v, %d permits free", q.accounted, q.accounts, q.free)
	}
}

// Permits alternate between long reads and the encoding of results that already count.
func TestEncodingAndReadsAlternate(t *testing.T) {
	q, first := onePermit(t)
	ctx := as(within(t), "caller")
	var (
		wg    sync.WaitGroup
		order []string // guarded by the permit
	)
	for i := range 3 {
		k, err := q.reserve(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		both := map[string]func(context.Context) (*Permit, error){
			"encode": k.encode,
			"read":   func(ctx context.Context) (*Permit, error) { return q.acquire(ctx, notSmall) },
		}
		for what, acquire := range both {
			wg.Go(func() {
				permit, err := acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, what)
				permit.End()
			})
		}
		awaitWaiting(t, q, "caller", 2*i+2)
	}
	first.End()
	wg.Wait()
	for i, what := range order[2:] {
		if what != order[i] {
			t.Fatalf("permits went in the order %v", order)
		}
	}
	if order[0] == order[1] || q.accounted != 0 || q.free != 1 {
		t.Errorf("order %v, %d bytes accounted for, %d permits free", order, q.accounted, q.free)
	}
}

// One caller's results leave memory for those of others.
func TestResultsOfOneCaller(t *testing.T) {
	q, k, _ := testAdmission(t, DefaultResultBytes/4*3)
	own, leave := context.WithCancel(as(t.Context(), "slow"))
	left := make(chan error, 1)
	go func() {
		_, err := q.acquire(own, notSmall)
		left <- err
	}()
	awaitWaiting(t, q, "slow", 1)
	for range 2 { // directly, and from the queue past the caller that has to wait
		permit, err := q.acquire(as(within(t), "other"), notSmall)
		if err != nil {
			t.Fatal(err)
		}
		done := waits(t, q)
		permit.End()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller with many unreceived bytes starts another read: %v", err)
	}
	k.Release(DefaultResultBytes / 4 * 3)
	if q.accounted != 0 || len(q.accounts) != 0 || q.free != 1 || len(q.reads.callers) != 0 {
		t.Errorf("%d bytes for %v, %d permits free, %v wait", q.accounted, q.accounts, q.free, q.reads.callers)
	}
}

// A client that reads less than half of its result in the allowed time is disconnected, but only if others wait in
// vain.
func TestHangUpOnSlowReader(t *testing.T) {
	q, k, hungUp := testAdmission(t, 4*DefaultResultBytes)
	k.check()
	own, leave := context.WithCancel(as(t.Context(), "slow"))
	left := make(chan error, 1)
	go func() {
		_, err := q.acquire(own, notSmall)
		left <- err
	}()
	awaitWaiting(t, q, "slow", 1)
	k.Release(1)
	k.check() // only the caller itself waits
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done := waits(t, q)
	k.Release(2 * DefaultResultBytes)
	k.check() // the client has received half
	flow := q.charge(as(t.Context(), "fast"), DefaultResultBytes/2)
	flow.Release(DefaultResultBytes / 2)
	k.Release(1)
	k.check() // it receives a little while others receive much
	if len(hungUp) > 0 || k.Bytes() == 0 {
		t.Error("disconnected a client that blocks no other client or is entitled to more time")
	}
	k.Release(DefaultResultBytes / 4)
	k.check()
	if caller := <-hungUp; caller != "slow" {
		t.Errorf("disconnected %v", caller)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	k.Release(5) // gRPC frees the rest later
	if q.accounted != 0 {
		t.Errorf("%d bytes are accounted for", q.accounted)
	}
}

// Results that nobody receives do not delay small reads of other callers, of which each has one at a time.
func TestUnreadResultsLeaveMemoryForSmallReads(t *testing.T) {
	q, k, _ := testAdmission(t, 4*DefaultResultBytes)
	const small = DefaultResultBytes / smallResults
	large := waits(t, q)
	permit, err := q.acquire(as(within(t), "small"), small)
	if err != nil {
		t.Fatal(err)
	}
	permit.End()
	var accounts []*Account
	for i := range smallResults - 1 {
		k, err := q.reserve(as(within(t), strconv.Itoa(i)), small)
		if err != nil {
			t.Fatal(err)
		}
		accounts = append(accounts, k)
	}
	for name, ctx := range map[string]context.Context{
		"a second result of a caller": as(within(t), "0"), "a caller too many": as(within(t), "small"),
	} {
		if q.tryReserve(ctx, small, 0) != nil {
			t.Errorf("%s got memory", name)
		}
	}
	accounts[0].Release(small)
	if q.tryReserve(as(within(t), "0"), small+1, 0) != nil {
		t.Error("a result that is not small got memory")
	}
	waiting := make(chan error, 1)
	go func() {
		k, err := q.reserve(as(within(t), "small"), small)
		k.Release(small)
		waiting <- err
	}()
	if err := <-waiting; err != nil { // although another one waits
		t.Error(err)
	}
	k.Release(4 * DefaultResultBytes)
	if err := <-large; err != nil {
		t.Error(err)
	}
	for _, k := range accounts {
		k.Release(small)
	}
	if q.accounted != 0 || len(q.accounts) != 0 {
		t.Errorf("%d bytes of %d callers are accounted for", q.accounted, len(q.accounts))
	}
}

// What a read with a permit is making counts before it exists, so several large results are not made at the same time.
func TestResultsThatAreBeingMadeCount(t *testing.T) {
	q := newAdmission(DefaultResultBytes, func(ctx context.Context) any { return ctx.Value(callerKey{}) }, nil)
	q.free = 3
	first, err := q.acquire(as(within(t), "first"), 2*DefaultResultBytes)
	if err != nil {
		t.Fatal(err)
	}
	second := waits(t, q)
	small, err := q.acquire(as(within(t), "small"), notSmall-1)
	if err != nil {
		t.Fatal(err)
	}
	small.End()
	first.End()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if q.expected != 0 || q.free != 3 {
		t.Errorf("%d bytes are still expected, %d permits free", q.expected, q.free)
	}
}

// A large read that leaves the queue lets the caller's small ones behind it go on.
func TestLargeReadLeavesTheQueue(t *testing.T) {
	q, k, _ := testAdmission(t, 4*DefaultResultBytes)
	for i, wait := range []func(context.Context, int64) error{
		func(ctx context.Context, bytes int64) error {
			permit, err := q.acquire(ctx, bytes)
			permit.End()
			return err
		},
		func(ctx context.Context, bytes int64) error {
			k, err := q.reserve(ctx, bytes)
			if err == nil {
				k.Release(bytes)
			}
			return err
		},
	} {
		gone, leave := context.WithCancel(as(t.Context(), "reads"))
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- wait(gone, notSmall) }()
		awaitWaiting(t, q, "reads", 1)
		go func() { small <- wait(as(within(t), "reads"), notSmall-1) }()
		awaitWaiting(t, q, "reads", 2)
		leave()
		if err := <-large; !errors.Is(err, context.Canceled) {
			t.Errorf("%d: the large read: %v", i, err)
		}
		if err := <-small; err != nil {
			t.Errorf("%d: the small read: %v", i, err)
		}
	}
	k.Release(4 * DefaultResultBytes)
	if q.accounted != 0 || q.expected != 0 || q.free != 1 {
		t.Errorf("%d bytes are accounted for, %d expected, %d permits free", q.accounted, q.expected, q.free)
	}
}
