package store

import (
	"context"
	"time"
)

const (
	// keptMost is how many bytes of results may wait for their clients before long reads have to wait, too.
	keptMost = 256 << 20
	// keptShared is the part of keptMost that any caller may use. The rest is for callers that have no result waiting,
	// so a client that takes nothing blocks nobody else.
	keptShared = keptMost / 4 * 3
	// keptTime is how long a client has to take half of a result, and then half of the rest, while others wait for the
	// room. A client that took a little at a time could otherwise block them for hours. Any progress is enough if only
	// the client's own reads wait, or if all clients together have taken keptFlow in that time: the others then get
	// their room soon, and the client may be slow only because so many clients read at once.
	keptTime = 10 * time.Second
	keptFlow = keptMost / 2
)

// Kept accounts for the memory of a long read's result that its client has not taken yet.
type Kept struct {
	of     *turns
	caller any
	// Guarded by turns.mu.
	bytes int64
	had   int64       // bytes when the timer was set
	taken int64       // turns.taken when the timer was set
	timer *time.Timer // nil while there is nothing to take
}

// Turn waits until a long read could begin. Callers use it before they encode a large result of another request.
// Errors: ctx's.
func (s *Store) Turn(ctx context.Context) (*Turn, error) { return s.turns.take(ctx) }

// Keep accounts for memory that outlasts the turn, in bytes, on behalf of ctx's caller. Release it.
func (t *Turn) Keep(ctx context.Context, bytes int64) *Kept { return t.of.keep(ctx, bytes) }

// Keep accounts for the memory, in bytes, of a result that was read for ctx's caller. Release it.
func (s *Store) Keep(ctx context.Context, bytes int64) *Kept { return s.turns.keep(ctx, bytes) }

func (q *turns) keep(ctx context.Context, bytes int64) *Kept {
	k := &Kept{of: q, caller: q.caller(ctx), bytes: bytes}
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
func (k *Kept) begin() {
	k.had, k.taken = k.bytes, k.of.taken
	if k.timer == nil {
		k.timer = time.AfterFunc(keptTime, k.look)
	} else {
		k.timer.Reset(keptTime)
	}
}

// start is begin for callers that do not hold mu.
func (k *Kept) start() {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.begin()
}

// reserve waits until there is room, then accounts for a result that does not exist yet. A result larger than all the
// room waits like any other, and then has the room to itself. Release it. Errors: ctx's.
func (q *turns) reserve(ctx context.Context, bytes int64) (*Kept, error) {
	p := &place{caller: q.caller(ctx), bytes: bytes}
	k := &Kept{of: q, caller: p.caller, bytes: bytes}
	if err := q.wait(ctx, &q.results, p, func() { k.release(bytes) }); err != nil {
		return nil, err
	}
	return k, nil
}

// turn waits for a turn to encode a result that already counts. It does not wait for room, since only such results may
// be able to free any. The end of the turn releases k. Errors: ctx's.
func (k *Kept) turn(ctx context.Context) (*Turn, error) {
	if err := k.of.wait(ctx, &k.of.encoding, &place{caller: k.caller}, k.of.over); err != nil {
		return nil, err
	}
	return k.of.begin(k), nil
}

// count adds a caller's result to the accounts, if it has bytes. Callers hold mu.
func (q *turns) count(caller any, bytes int64) {
	if bytes > 0 {
		q.kept += bytes
		q.holding[caller]++
	}
}

// Bytes returns the number of bytes that are not released yet.
func (k *Kept) Bytes() int64 {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	return k.bytes
}

// Release releases bytes, or what is left if that is less.
func (k *Kept) Release(bytes int64) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.release(bytes)
}

func (k *Kept) release(bytes int64) {
	if k.bytes == 0 {
		return
	}
	q := k.of
	bytes = min(bytes, k.bytes)
	k.bytes -= bytes
	q.kept -= bytes
	q.taken += bytes
	if k.bytes == 0 {
		if k.timer != nil {
			k.timer.Stop()
		}
		if q.holding[k.caller]--; q.holding[k.caller] == 0 {
			delete(q.holding, k.caller)
		}
	}
	q.give()
}

// look runs when the client's time is up. It disconnects a client that blocks others, and gives any other client more
// time.
func (k *Kept) look() {
	q := k.of
	q.mu.Lock()
	defer q.mu.Unlock()
	some := k.bytes < k.had && (q.taken-k.taken >= keptFlow || !q.othersWait(k.caller))
	switch {
	case k.bytes == 0:
	case !q.awaited() || q.kept < keptShared || k.bytes <= k.had/2 || some:
		k.begin()
	default:
		if q.hangUp != nil {
			go q.hangUp(k.caller)
		}
		k.release(k.bytes) // even if it cannot be disconnected, the others need not wait for it forever
	}
}

// awaited reports whether any caller waits for room. Callers hold mu.
func (q *turns) awaited() bool { return len(q.reads.callers)+len(q.results.callers) > 0 }

// othersWait reports whether a caller other than the given one waits for room, or might. Callers hold mu.
func (q *turns) othersWait(than any) bool { return q.reads.others(than) || q.results.others(than) }

// room reports whether there is enough memory for a caller's next read to begin. Callers hold mu.
func (q *turns) room(caller any) bool {
	return q.kept < keptShared || q.kept < keptMost && q.holding[caller] == 0
}
