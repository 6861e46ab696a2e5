package store

import (
	"context"
	"time"
)

const (
	// keptMost is how many bytes of results may wait for their clients before long reads wait, too.
	keptMost = 256 << 20
	// keptShared is how many of them are for all: the rest is for callers who have no result waiting. One that takes
	// nothing blocks nobody else.
	keptShared = keptMost / 4 * 3
	// keptTime is how long a client has for half of a result, and then for half of the rest, while others wait for the
	// room: with a little at a time, a result could stand in the way for hours. Some of it is enough if only the
	// client's own reads wait, or if all clients together have taken keptFlow meanwhile: then the others get their room
	// soon, and the client may be slow only because so many read at once.
	keptTime = 10 * time.Second
	keptFlow = keptMost / 2
)

// Kept is the memory of a long read's result that its client has not taken yet.
type Kept struct {
	of     *turns
	caller any
	// Guarded by turns.mu.
	bytes int64
	had   int64       // bytes when the timer was set
	taken int64       // of turns, at that time
	timer *time.Timer // nil as long as there is nothing to take
}

// Turn waits until a long read could begin, for who is about to encode a large result of another request. Errors:
// ctx's.
func (s *Store) Turn(ctx context.Context) (*Turn, error) { return s.turns.take(ctx) }

// Keep counts memory that outlasts the turn, on behalf of ctx's caller. It is to be released.
func (t *Turn) Keep(ctx context.Context, bytes int64) *Kept { return t.of.keep(ctx, bytes) }

// Keep counts memory of a result that was read for ctx's caller. It is to be released.
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

// begin gives the client its time for a part of the result. Callers hold mu.
func (k *Kept) begin() {
	k.had, k.taken = k.bytes, k.of.taken
	if k.timer == nil {
		k.timer = time.AfterFunc(keptTime, k.look)
	} else {
		k.timer.Reset(keptTime)
	}
}

// Room waits until there is room for a result of ctx's caller, and then counts it as Keep does. It is to be released.
// Errors: ctx's.
func (s *Store) Room(ctx context.Context, bytes int64) (*Kept, error) {
	k, err := s.turns.reserve(ctx, bytes)
	if err != nil {
		return nil, err
	}
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	k.begin()
	return k, nil
}

// reserve waits until there is room and then counts a result that is yet to be made. One that is larger than all room
// waits like any other, and is then alone. It is to be released. Errors: ctx's.
func (q *turns) reserve(ctx context.Context, bytes int64) (*Kept, error) {
	p := &place{caller: q.caller(ctx), bytes: bytes}
	k := &Kept{of: q, caller: p.caller, bytes: bytes}
	if err := q.wait(ctx, &q.results, p, func() { k.release(bytes) }); err != nil {
		return nil, err
	}
	return k, nil
}

// turn waits for a turn to encode a result that counts already. It needs no room, since room may come only from such
// results. The end of the turn releases k. Errors: ctx's.
func (k *Kept) turn(ctx context.Context) (*Turn, error) {
	if err := k.of.wait(ctx, &k.of.encoding, &place{caller: k.caller}, k.of.over); err != nil {
		return nil, err
	}
	return k.of.begin(k), nil
}

// count counts a caller's result, if it has bytes. Callers hold mu.
func (q *turns) count(caller any, bytes int64) {
	if bytes > 0 {
		q.kept += bytes
		q.holding[caller]++
	}
}

// Bytes returns how many are not released.
func (k *Kept) Bytes() int64 {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	return k.bytes
}

// Release gives back so many bytes, or what there is left.
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

// look gives up a client that stands in the way of others.
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
		k.release(k.bytes) // where it cannot be hung up, others need not wait for it forever
	}
}

// awaited says whether anybody waits for room. Callers hold mu.
func (q *turns) awaited() bool { return len(q.reads.callers)+len(q.results.callers) > 0 }

// othersWait says whether somebody else than a caller waits for room, or may do. Callers hold mu.
func (q *turns) othersWait(than any) bool { return q.reads.others(than) || q.results.others(than) }

// room says whether a caller's next read may begin, as far as memory is concerned. Callers hold mu.
func (q *turns) room(caller any) bool {
	return q.kept < keptShared || q.kept < keptMost && q.holding[caller] == 0
}
