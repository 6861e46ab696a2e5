package store

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// longRead is how many keys make a read long. Shorter reads finish before they could take turns.
	longRead = 100
	// turnTime is the maximum duration of a turn, whatever its read does.
	turnTime = 5 * time.Second
)

// turns limits the long reads that compute at a time to the number of processors (at least 2), and serves all callers
// alike. Otherwise, of a thousand lists at once, each would get a thousandth of the processors, and so would every put
// and get beside them. turns also begins no further long read while results that clients have not taken yet hold too
// much memory.
type turns struct {
	caller func(context.Context) any // identifies callers
	hangUp func(caller any)          // may be nil

	mu       sync.Mutex
	free     int
	kept     int64       // bytes of results
	taken    int64       // bytes of results released since the start
	holding  map[any]int // number of these results per caller; no entry is 0
	encoding lines       // results that already count, waiting for a turn to be encoded
	reads    lines       // long reads, waiting for a turn and for room
	results  lines       // writes that return many rows and chunks of streams, waiting for room only
	encodes  bool        // the last turn was for encoding, if anything waited for that
}

// Turn is a long read's permission to compute. It ends by itself after turnTime.
type Turn struct {
	of     *turns
	result *Kept // what the result accounts for until the holder ends the turn
	timer  *time.Timer
	once   sync.Once
}

func newTurns(caller func(context.Context) any, hangUp func(any)) *turns {
	if caller == nil {
		caller = func(context.Context) any { return nil }
	}
	return &turns{
		caller: caller, hangUp: hangUp, free: max(2, runtime.GOMAXPROCS(0)), holding: map[any]int{},
	}
}

// take waits for a turn, which the caller ends. Errors: ctx's.
func (q *turns) take(ctx context.Context) (*Turn, error) { return q.takeWith(ctx, 0) }

// takeWith is take for a read whose result accounts for bytes until its turn ends.
func (q *turns) takeWith(ctx context.Context, bytes int64) (*Turn, error) {
	k := &Kept{of: q, caller: q.caller(ctx), bytes: bytes}
	undo := func() {
		q.over()
		k.release(bytes)
	}
	if err := q.wait(ctx, &q.reads, &place{caller: k.caller, bytes: bytes}, undo); err != nil {
		return nil, err
	}
	return q.begin(k), nil
}

func (q *turns) begin(result *Kept) *Turn {
	t := &Turn{of: q, result: result}
	t.timer = time.AfterFunc(turnTime, t.pass)
	return t
}

// wait returns once p gets what the places in l wait for. If ctx ends just as it does, wait calls undo, with mu held,
// to give it back.
func (q *turns) wait(ctx context.Context, l *lines, p *place, undo func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.given = make(chan struct{})
	q.mu.Lock()
	l.join(p)
	q.give()
	q.mu.Unlock()
	select {
	case <-p.given:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.at == nil {
		undo() // it was granted at the same time
	} else {
		l.remove(p)
	}
	return ctx.Err()
}

// End ends the turn, unless it has ended by itself, and releases the memory of its result. End on a nil Turn does
// nothing.
func (t *Turn) End() {
	if t == nil {
		return
	}
	t.timer.Stop()
	t.pass()
	t.result.Release(math.MaxInt64)
}

func (t *Turn) pass() {
	t.once.Do(func() {
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		t.of.over()
	})
}

// over takes back a turn. Callers hold mu.
func (q *turns) over() {
	q.free++
	q.give()
}

// give hands out free turns, and room for results. Callers hold mu.
func (q *turns) give() {
	for q.free > 0 {
		p := q.nextTurn()
		if p == nil {
			break
		}
		q.free--
		q.count(p.caller, p.bytes)
		close(p.given)
	}
	for q.kept < keptMost {
		p := q.results.leave(q.room)
		if p == nil {
			break
		}
		q.count(p.caller, p.bytes)
		close(p.given)
	}
}

// nextTurn removes and returns the place that gets the next turn. Encoding and reads alternate, so neither waits for
// all of the other. Callers hold mu.
func (q *turns) nextTurn() *place {
	q.encodes = !q.encodes
	p := q.leave(q.encodes)
	if p == nil {
		q.encodes = !q.encodes
		p = q.leave(q.encodes)
	}
	return p
}

func (q *turns) leave(encodes bool) *place {
	switch {
	case encodes:
		return q.encoding.leave(nil)
	case q.kept >= keptMost:
		return nil
	}
	return q.reads.leave(q.room)
}

type turnKey struct{}

// with returns a context that carries the turn.
func (t *Turn) with(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, turnKey{}, t)
}

// withoutTurn returns a context whose reads take no turns.
func withoutTurn(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, (*Turn)(nil))
}

// noTurn has nothing to end.
var noTurn *Turn

// takeOne is take for a part of a read. It returns noTurn if the whole read has a turn, or needs none. A read that has
// reserved memory does not wait for room.
func (q *turns) takeOne(ctx context.Context) (*Turn, error) {
	if inTurn(ctx) {
		return noTurn, nil
	}
	if r := reservationOf(ctx); r != nil && r.account != nil {
		return (&Kept{of: q, caller: r.account.caller}).turn(ctx)
	}
	return q.take(ctx)
}

// inTurn reports whether ctx belongs to a read that has a turn, or needs none.
func inTurn(ctx context.Context) bool { return ctx.Value(turnKey{}) != nil }

// takeFor is takeOne for a part that looks at so many keys. It also returns noTurn if these are few.
func (q *turns) takeFor(ctx context.Context, keys int) (*Turn, error) {
	if keys <= longRead {
		return noTurn, nil
	}
	return q.takeOne(ctx)
}

// asking ends the turn of a read that is about to query the database: while that read waits, others can compute.
func asking(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(*Turn); ok && t != nil {
		t.timer.Stop()
		t.pass()
	}
}

// long reports whether a read looks at many keys of t.
func (r *RangeRequest) long(t *index.Tree) bool {
	if r.CountOnly || len(r.End) == 0 || r.plain() && r.Limit > 0 && r.Limit <= longRead {
		return false
	}
	return t.Exceeds(index.NewSpan(r.Key, r.End), longRead)
}

// long reports whether a read-only transaction looks at many keys of the tree.
func (t *Txn) long(of *index.Tree) bool {
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for i := range ops {
			if ops[i].Range.long(of) {
				return true
			}
		}
	}
	return false
}
