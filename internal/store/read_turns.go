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
	// longRead is how many keys make a read long: shorter ones are over before they could take turns.
	longRead = 100
	// turnTime is how long a turn lasts at most, whatever its read does.
	turnTime = 5 * time.Second
)

// turns lets only so many long reads be computed at a time as there are processors, and takes them from all callers
// alike: else a thousand lists at once would each be given a thousandth of the processors, and so would every put and
// get beside them. Nor does it begin another one while the results of those before it, not yet taken by their clients,
// hold too much memory.
type turns struct {
	caller func(context.Context) any // distinguishes callers
	hangUp func(caller any)          // may be nil

	mu       sync.Mutex
	free     int
	kept     int64       // bytes of results
	taken    int64       // bytes of results that count no longer, since the start
	holding  map[any]int // how many of these results each caller has; none has 0
	encoding lines       // results that count already wait for a turn to be encoded
	reads    lines       // long reads wait for a turn, and for room
	results  lines       // writes that return many rows and chunks of streams wait for room only
	encodes  bool        // the last turn was for encoding, as far as anything waited for it
}

// Turn is a long read's permission to compute. It ends by itself after a while.
type Turn struct {
	of     *turns
	result *Kept // what counts of the result until the holder ends the turn
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

// take waits for a turn, which whoever took it ends. Errors: ctx's.
func (q *turns) take(ctx context.Context) (*Turn, error) { return q.takeWith(ctx, 0) }

// takeWith is take for a read whose result counts as so many bytes until its turn is ended.
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

// wait returns when p gets what those in l wait for. Where ctx ends at the same time, undo gives it back, with mu held.
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
		undo() // it was given meanwhile
	} else {
		l.remove(p)
	}
	return ctx.Err()
}

// End ends the turn, unless it has ended by itself, and what counts of its result. A nil Turn has nothing to end.
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

// give hands out the turns that are free and the room for results. Callers hold mu.
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

// nextTurn takes out of its line what gets the next turn: encoding and reads alternate, so that neither waits for all
// of the other. Callers hold mu.
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

// with returns a context that knows the turn.
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

// takeOne is take for a part of a read, nil if the whole read has a turn, or needs none.
func (q *turns) takeOne(ctx context.Context) (*Turn, error) {
	if inTurn(ctx) {
		return nil, nil //nolint:nilnil // a nil Turn has nothing to end
	}
	return q.take(ctx)
}

// inTurn says whether ctx is that of a read that has a turn, or needs none.
func inTurn(ctx context.Context) bool { return ctx.Value(turnKey{}) != nil }

// takeFor is takeOne for a part that looks at so many keys, nil also when these are few.
func (q *turns) takeFor(ctx context.Context, keys int) (*Turn, error) {
	if keys <= longRead {
		return nil, nil //nolint:nilnil // as above
	}
	return q.takeOne(ctx)
}

// asking passes on the turn of a read that is about to ask the database: it will wait, which others can compute in.
func asking(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(*Turn); ok && t != nil {
		t.timer.Stop()
		t.pass()
	}
}

// long says whether a read looks at many keys of t.
func (r *RangeRequest) long(t *index.Tree) bool {
	if r.CountOnly || len(r.End) == 0 || r.plain() && r.Limit > 0 && r.Limit <= longRead {
		return false
	}
	return t.Exceeds(index.NewSpan(r.Key, r.End), longRead)
}

// long says whether a transaction that only reads looks at many keys of t.
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
