package store

import (
	"context"
	"time"
)

const (
	// drainTime is how long a client has to receive half of a result, and then half of the rest, while others wait for
	// memory. A client that received a little at a time could otherwise block them for hours. Any progress is enough if
	// only the client's own reads wait, or if all clients together have received half of the limit in that time: the
	// others are then admitted soon, and the client may be slow only because so many clients read at once.
	drainTime = 10 * time.Second
	// smallResults is how many small results make up the limit.
	smallResults = 64
)

// shared is the part of the limit that any caller may use. The rest is for callers that have no result waiting, so a
// client that receives nothing blocks nobody else.
func (q *admission) shared() int64 { return q.limit / 4 * 3 }

// small is the size of a result with which a caller that has no other one is admitted although there is no memory left,
// as long as the callers with results are so few that small ones could not fill the limit again. So a few large results
// that nobody receives delay neither small reads nor gets.
func (q *admission) small() int64 { return max(q.limit/smallResults, largestRow) }

// Account accounts for the memory of a long read's result that its client has not received yet.
type Account struct {
	of     *admission
	caller any
	// Guarded by admission.mu.
	bytes    int64
	before   int64       // bytes when the timer was set
	released int64       // admission.released when the timer was set
	timer    *time.Timer // nil while there is nothing to receive
}

// AcquirePermit waits until a long read with a result of so many bytes could begin. Callers use it before they encode a
// large result of another request. Errors: ctx's.
func (s *Store) AcquirePermit(ctx context.Context, bytes int64) (*Permit, error) {
	return s.admission.acquire(ctx, bytes)
}

// Charge accounts for memory that outlasts the permit, in bytes, on behalf of ctx's caller. Release it.
func (t *Permit) Charge(ctx context.Context, bytes int64) *Account { return t.of.charge(ctx, bytes) }

// Charge accounts for the memory, in bytes, of a result that was read for ctx's caller. Release it.
func (s *Store) Charge(ctx context.Context, bytes int64) *Account {
	return s.admission.charge(ctx, bytes)
}

func (q *admission) charge(ctx context.Context, bytes int64) *Account {
	k := &Account{of: q, caller: q.caller(ctx), bytes: bytes}
	q.mu.Lock()
	defer q.mu.Unlock()
	if bytes == 0 {
		return k
	}
	q.count(k.caller, bytes)
	k.begin()
	return k
}

// begin starts the client's time for the next part of the result. Callers hold mu.
func (k *Account) begin() {
	k.before, k.released = k.bytes, k.of.released
	if k.timer == nil {
		k.timer = time.AfterFunc(drainTime, k.check)
	} else {
		k.timer.Reset(drainTime)
	}
}

// start is begin for callers that do not hold mu.
func (k *Account) start() {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.begin()
}

// reserve waits until there is memory, then accounts for a result that does not exist yet. A result larger than the
// limit waits like any other, and then is the only one. Release it. Errors: ctx's.
func (q *admission) reserve(ctx context.Context, bytes int64) (*Account, error) {
	p := &waiter{caller: q.caller(ctx), bytes: bytes}
	k := &Account{of: q, caller: p.caller, bytes: bytes}
	if err := q.wait(ctx, &q.results, p, func() { k.release(bytes) }); err != nil {
		return nil, err
	}
	return k, nil
}

// encode waits for a permit to encode a result that is accounted for. It does not wait for memory, since only such
// results may be able to free any. The end of the permit releases k. Errors: ctx's.
func (k *Account) encode(ctx context.Context) (*Permit, error) {
	undo := func() { k.of.returned(0) }
	if err := k.of.wait(ctx, &k.of.encoding, &waiter{caller: k.caller}, undo); err != nil {
		return nil, err
	}
	return k.of.begin(k, 0), nil
}

// count adds a caller's result to the accounts, if it has bytes. Callers hold mu.
func (q *admission) count(caller any, bytes int64) {
	if bytes > 0 {
		q.accounted += bytes
		q.accounts[caller]++
	}
}

// Bytes returns the number of bytes that are not released yet.
func (k *Account) Bytes() int64 {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	return k.bytes
}

// Release releases bytes, or what is left if that is less.
func (k *Account) Release(bytes int64) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.release(bytes)
}

func (k *Account) release(bytes int64) {
	if k.bytes == 0 {
		return
	}
	q := k.of
	bytes = min(bytes, k.bytes)
	k.bytes -= bytes
	q.accounted -= bytes
	q.released += bytes
	if k.bytes == 0 {
		if k.timer != nil {
			k.timer.Stop()
		}
		if q.accounts[k.caller]--; q.accounts[k.caller] == 0 {
			delete(q.accounts, k.caller)
		}
	}
	q.grant()
}

// check runs when the client's time is up. It disconnects a client that blocks others, and gives any other client more
// time.
func (k *Account) check() {
	q := k.of
	q.mu.Lock()
	defer q.mu.Unlock()
	some := k.bytes < k.before && (q.released-k.released >= q.limit/2 || !q.othersWait(k.caller))
	switch {
	case k.bytes == 0:
	case !q.awaited() || q.accounted < q.shared() || k.bytes <= k.before/2 || some:
		k.begin()
	default:
		if q.hangUp != nil {
			go q.hangUp(k.caller)
		}
		k.release(k.bytes) // even if it cannot be disconnected, the others need not wait for it forever
	}
}

// awaited reports whether any caller waits for memory. Callers hold mu.
func (q *admission) awaited() bool { return len(q.reads.callers)+len(q.results.callers) > 0 }

// othersWait reports whether a caller other than the given one waits for memory, or might. Callers hold mu.
func (q *admission) othersWait(than any) bool { return q.reads.others(than) || q.results.others(than) }

// admits reports whether there is enough memory for a read to begin. Callers hold mu.
func (q *admission) admits(p *waiter) bool {
	switch used := q.accounted + q.expected; {
	case used < q.shared():
		return true
	case q.accounts[p.caller] > 0:
		return false
	case used < q.limit:
		return true
	}
	return p.bytes <= q.small() && int64(len(q.accounts)) < q.limit/q.small()
}
