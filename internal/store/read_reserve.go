package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// largestRow is what a row that is not read yet may have, in bytes, as far as the bound of a statement allows. The
	// index does not know the sizes of values.
	largestRow = 1 << 20
	// smallResult is the size in bytes below which a result is not worth an account.
	smallResult = 64 << 10
	// messageBytes is what a gRPC message can have.
	messageBytes = math.MaxInt32
)

// reservation accounts for the rows that a read fetches from the database, from before its first statement until the
// result is encoded. A read waits for it only while it holds nothing, not even a snapshot of the index: where it would
// have to wait, it fails with [unreserved], and starts over once it has the reservation. So reads that wait cannot
// block each other, and a transaction that writes does not wait while the sequencer evaluates it.
type reservation struct {
	of      *admission
	client  context.Context // the read's, which tells whose memory it is
	rows    int64           // that the read returns, as far as it is known
	whole   bool            // rows is for all parts of the read
	seen    int64           // of these, those that it has
	size    int64           // the bytes of these
	bytes   int64           // of those that it has fetched
	waited  int64           // the bytes for which the read waited, 0 at first
	least   int64           // what the account is for at least
	copies  int64           // see RangeRequest.Copies; at least 1
	message int64           // the bytes that the result may have, 0 for no limit
	settled bool            // the account grows as it must
	write   bool            // of a transaction that may write

	mu      sync.Mutex // a client may leave while the sequencer evaluates its transaction
	account *Account   // nil until the first statement
	ended   bool       // the client has left
}

// unreserved is the error of a read that has to wait for a reservation of so many bytes.
type unreserved struct{ bytes int64 }

func (e *unreserved) Error() string { return fmt.Sprintf("%d bytes are not reserved", e.bytes) }

type reservationKey struct{}

func (r *reservation) with(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, reservationKey{}, r)
}

// reservationOf returns the reservation of ctx's read, nil if it needs none. All methods accept nil.
func reservationOf(ctx context.Context) *reservation {
	switch of := ctx.Value(reservationKey{}).(type) {
	case *reservation:
		return of
	case *evaluator:
		return of.reservation
	}
	return nil
}

// reserving returns the reservation for a read that begins, without an account, nil for urgent reads and for parts of a
// read that has one.
func (s *Store) reserving(ctx context.Context, copies int64) *reservation {
	if backend.IsUrgent(ctx) || reservationOf(ctx) != nil {
		return nil
	}
	return &reservation{of: s.admission, client: ctx, copies: max(1, copies)}
}

// asMessage limits the result to what one message can have, so that what cannot be sent is not read to its end.
func (r *reservation) asMessage(is bool) {
	if r != nil && is {
		r.message = r.of.message
	}
}

// unsent says that the rows that the read fetches are not its result, until the returned function is called.
func (r *reservation) unsent() (end func()) {
	if r == nil {
		return func() {}
	}
	message, size := r.message, r.size
	r.message = 0
	return func() { r.message, r.size = message, size }
}

// retry decides about a read that has failed. If only the reservation was missing, it waits for that, and returns nil:
// the read starts over. Otherwise it returns the error.
func (r *reservation) retry(ctx context.Context, err error) error {
	var e *unreserved
	r.release()
	if r == nil || !errors.As(err, &e) {
		return err
	}
	if !r.whole {
		r.rows = 0
	}
	r.recount(rowsCounted{})
	r.waited = max(e.bytes, 2*r.waited)
	r.account, err = r.of.reserve(ctx, r.waited)
	return err
}

// expect sets how many rows all parts of the read return.
func (r *reservation) expect(rows int64) {
	if r != nil {
		r.rows, r.whole = rows, true
	}
}

// addRows adds rows that the read returns besides those that it has.
func (r *reservation) addRows(rows int64) {
	if r != nil && !r.whole {
		r.rows += rows
	}
}

// reserveRead prepares for the read's first statement, which returns up to rows rows, and few more bytes than bound.
func (s *Store) reserveRead(ctx context.Context, rows int, bound int64) error {
	r := reservationOf(ctx)
	if r == nil || r.settled || r.bytes > 0 || r.waited > 0 {
		return nil
	}
	n := min(int64(rows)*largestRow, bound)
	n = max(n, max(int64(rows), r.rows-r.seen)*max(leastRowBytes, s.index.AverageValue()))
	return r.grow(n*r.copies, false)
}

// grow makes the account one of so many bytes. Unless it must, it fails if there is no memory for them. A write that
// fetches a value or two, such as the previous one of its key, need not wait for clients that receive their results
// slowly.
func (r *reservation) grow(bytes int64, must bool) error {
	bytes = max(bytes, r.least)
	spare := int64(0)
	if r.write && bytes <= 2*largestRow*r.copies {
		spare = r.of.limit / 4
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return context.Canceled
	case r.account == nil:
		if r.account = r.of.tryReserve(r.client, bytes, spare); r.account == nil {
			return &unreserved{bytes}
		}
	case !r.account.resize(bytes, must || spare > 0):
		return &unreserved{bytes}
	}
	return nil
}

// tryReserve is reserve without waiting. It returns nil if the caller would have to wait. With spare bytes, it need not
// until these exceed the limit.
func (q *admission) tryReserve(ctx context.Context, bytes, spare int64) *Account {
	k := &Account{of: q, caller: q.caller(ctx), bytes: bytes}
	q.mu.Lock()
	defer q.mu.Unlock()
	admitted := len(q.results.callers) == 0 && q.admits(&waiter{caller: k.caller, bytes: bytes})
	if spare > 0 {
		admitted = q.accounted < q.limit+spare
	}
	if !admitted {
		return nil
	}
	q.count(k.caller, bytes)
	return k
}

// read corrects the account after the read got rows of a size, of which the fetched ones have so many bytes. If all its
// rows will need more than there is, it must start over. One that has waited does so only if it needs a quarter more
// than it waited for; then it waits for at least twice as much, so it starts over a few times at most. Errors:
// [ErrResultTooLarge].
func (r *reservation) read(rows int, size, bytes int64) error {
	if r == nil {
		return nil
	}
	r.seen += int64(rows)
	r.size += size
	r.bytes += bytes
	switch {
	case r.message > 0 && r.size > r.message:
		return ErrResultTooLarge
	case r.bytes == 0:
		return nil
	}
	rest := int64(float64(r.bytes) / float64(r.seen) * float64(max(0, r.rows-r.seen)))
	if r.whole { // the rows of other parts may be much smaller
		rest = min(rest, max(r.bytes, r.of.limit/8))
	}
	need := r.copies * (r.bytes + rest)
	return r.grow(max(need, r.waited), r.settled || need <= r.waited+r.waited/4)
}

// rowsCounted is what a reservation has counted.
type rowsCounted struct{ seen, size, bytes int64 }

// counted returns what r has counted, for recount.
func (r *reservation) counted() (c rowsCounted) {
	if r != nil {
		c = rowsCounted{r.seen, r.size, r.bytes}
	}
	return c
}

// recount forgets rows that were read since then, and are held no longer. The next ones replace them in the account.
func (r *reservation) recount(c rowsCounted) {
	if r != nil {
		r.seen, r.size, r.bytes = c.seen, c.size, c.bytes
	}
}

// resize makes the account one of at least one byte. Unless it must, it grows only as far as there is memory, beside
// other accounts.
func (k *Account) resize(bytes int64, must bool) bool {
	bytes = max(1, bytes)
	q := k.of
	q.mu.Lock()
	defer q.mu.Unlock()
	others := q.accounted - k.bytes
	if !must && bytes > k.bytes && others > 0 && others+bytes > q.limit {
		return false
	}
	q.accounted += bytes - k.bytes
	k.bytes = bytes
	q.grant()
	return true
}

func (r *reservation) release() {
	if r != nil && r.account != nil {
		r.account.Release(math.MaxInt64)
		r.account = nil
	}
}

// end releases the reservation for good, even while the sequencer still evaluates the transaction.
func (r *reservation) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.release()
}

// encode turns the reservation of a finished read into a permit to encode its result, which then accounts for it. A
// result that is small, or not to be encoded, counts no longer; was is the permit that the read has had.
func (r *reservation) encode(ctx context.Context, was *Permit, large bool) (*Permit, error) {
	if r == nil || r.account == nil {
		return was, nil
	}
	bytes := max(r.bytes*r.copies, r.least)
	if !large || bytes < smallResult {
		r.release()
		return was, nil
	}
	was.End()
	r.account.resize(bytes, true)
	permit, err := r.account.encode(ctx)
	if err != nil {
		r.release()
		return nil, err
	}
	return permit, nil
}
