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
	// longRead is how many keys make a read long. Shorter reads need no permit: they finish before others would wait.
	longRead = 100
	// permitTime is the maximum duration of a permit, whatever its read does.
	permitTime = 5 * time.Second
)

// admission limits the long reads that compute at a time to the number of processors (at least 2), and serves all
// callers alike. Otherwise, of a thousand lists at once, each would get a thousandth of the processors, and so would
// every put and get beside them. It also admits no further long read while results that clients have not received yet
// hold too much memory.
type admission struct {
	caller  func(context.Context) any // identifies callers
	hangUp  func(caller any)          // may be nil
	limit   int64                     // bytes of results
	message int64                     // bytes that one result may have if its caller encodes it

	mu        sync.Mutex
	free      int
	accounted int64       // bytes of results
	expected  int64       // bytes of results that reads with permits are making
	released  int64       // bytes of results released since the start
	accounts  map[any]int // number of these results per caller; no entry is 0
	encoding  fairQueue   // results that are accounted for, waiting to be encoded
	reads     fairQueue   // long reads, waiting for a permit and for memory
	results   fairQueue   // writes that return many rows and chunks of streams, waiting for memory only
	encodes   bool        // the last permit was for encoding, if anything waited for that
}

// Permit is a long read's permission to compute. It ends by itself after permitTime.
type Permit struct {
	of       *admission
	result   *Account // what the result accounts for until the holder ends the permit
	expected int64    // bytes of a result that does not count yet
	timer    *time.Timer
	once     sync.Once
}

func newAdmission(limit int64, caller func(context.Context) any, hangUp func(any)) *admission {
	if caller == nil {
		caller = func(context.Context) any { return nil }
	}
	return &admission{
		caller: caller, hangUp: hangUp, limit: limit, free: max(2, runtime.GOMAXPROCS(0)), accounts: map[any]int{},
	}
}

// acquire waits for a permit, which the caller ends, for a read that returns about so many bytes. Errors: ctx's.
func (q *admission) acquire(ctx context.Context, bytes int64) (*Permit, error) {
	k := &Account{of: q, caller: q.caller(ctx)}
	undo := func() { q.returned(bytes) }
	if err := q.wait(ctx, &q.reads, &waiter{caller: k.caller, bytes: bytes}, undo); err != nil {
		return nil, err
	}
	return q.begin(k, bytes), nil
}

func (q *admission) begin(result *Account, expected int64) *Permit {
	t := &Permit{of: q, result: result, expected: expected}
	t.timer = time.AfterFunc(permitTime, t.pass)
	return t
}

// wait returns once p is granted what l is the queue for. If ctx ends just as it does, wait calls undo, with mu held,
// to give it back.
func (q *admission) wait(ctx context.Context, l *fairQueue, p *waiter, undo func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.granted = make(chan struct{})
	q.mu.Lock()
	l.push(p)
	q.grant()
	q.mu.Unlock()
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.at == nil {
		undo() // it was granted at the same time
	} else {
		l.remove(p)
		q.grant() // the caller's next one may be smaller
	}
	return ctx.Err()
}

// End ends the permit, unless it has ended by itself, and releases the memory of its result. End on a nil Permit does
// nothing.
func (t *Permit) End() {
	if t == nil {
		return
	}
	t.timer.Stop()
	t.pass()
	t.result.Release(math.MaxInt64)
}

func (t *Permit) pass() {
	t.once.Do(func() {
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		t.of.returned(t.expected)
	})
}

// returned makes a permit available again, for a result of which so many bytes were expected. Callers hold mu.
func (q *admission) returned(expected int64) {
	q.free++
	q.expected -= expected
	q.grant()
}

// grant hands out free permits, and memory for results. Callers hold mu.
func (q *admission) grant() {
	for q.free > 0 {
		p := q.next()
		if p == nil {
			break
		}
		q.free--
		q.expected += p.bytes
		close(p.granted)
	}
	for {
		p := q.results.pop(q.admits)
		if p == nil {
			break
		}
		q.count(p.caller, p.bytes)
		close(p.granted)
	}
}

// next removes and returns the waiter that gets the next permit. Encoding and reads alternate, so neither waits for
// all of the other. Callers hold mu.
func (q *admission) next() *waiter {
	q.encodes = !q.encodes
	p := q.pop(q.encodes)
	if p == nil {
		q.encodes = !q.encodes
		p = q.pop(q.encodes)
	}
	return p
}

func (q *admission) pop(encodes bool) *waiter {
	if encodes {
		return q.encoding.pop(nil)
	}
	return q.reads.pop(q.admits)
}

type permitKey struct{}

// with returns a context that carries the permit.
func (t *Permit) with(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, permitKey{}, t)
}

// withoutPermit returns a context whose reads need no permits.
func withoutPermit(ctx context.Context) context.Context {
	return context.WithValue(ctx, permitKey{}, (*Permit)(nil))
}

// noPermit has nothing to end.
var noPermit *Permit

// acquireOnce is acquire for a part of a read. It returns noPermit if the whole read has a permit, or needs none. A
// read that has reserved memory does not wait for more.
func (q *admission) acquireOnce(ctx context.Context, bytes int64) (*Permit, error) {
	if hasPermit(ctx) {
		return noPermit, nil
	}
	if r := reservationOf(ctx); r != nil && r.account != nil {
		return (&Account{of: q, caller: r.account.caller}).encode(ctx)
	}
	return q.acquire(ctx, bytes)
}

// hasPermit reports whether ctx belongs to a read that has a permit, or needs none.
func hasPermit(ctx context.Context) bool { return ctx.Value(permitKey{}) != nil }

// acquireFor is acquireOnce for a part of a stream that scans so many keys. It also returns noPermit if these are few.
func (q *admission) acquireFor(ctx context.Context, keys int) (*Permit, error) {
	if keys <= longRead {
		return noPermit, nil
	}
	return q.acquireOnce(ctx, chunkBytes)
}

// returnPermit ends the permit of a read that is about to query the database: while that read waits, others can
// compute.
func returnPermit(ctx context.Context) {
	if t, ok := ctx.Value(permitKey{}).(*Permit); ok && t != nil {
		t.timer.Stop()
		t.pass()
	}
}

// long reports whether a read scans many keys of t.
func (r *RangeRequest) long(t *index.Tree) bool {
	return !r.short() && t.Exceeds(index.NewSpan(r.Key, r.End), longRead)
}

// short reports whether a read scans few keys, however many its range has.
func (r *RangeRequest) short() bool {
	return r.CountOnly || len(r.End) == 0 || r.plain() && r.Limit > 0 && r.Limit <= longRead
}

// long reports whether a read-only transaction scans many keys of the tree.
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
