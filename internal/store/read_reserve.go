package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// largestRow is what a row that is not read yet may have, in bytes, as far as the bound of a statement allows. The
	// index does not know the sizes of values.
	largestRow = 1 << 20
	// smallResult is the size in bytes below which a result is not worth an account.
	smallResult = 64 << 10
)

// reservation accounts for the rows that a read fetches from the database, from before its first statement until the
// result is encoded. A read waits for it only while it holds nothing, not even a snapshot of the index: where it would
// have to wait, it fails with [unreserved], and starts over once it has the reservation. After that it never waits, so
// reads that wait cannot block each other.
type reservation struct {
	of      *admission
	account *Account // nil until the first statement
	rows    int64    // that the read returns, as far as it is known
	seen    int64    // of these, those that it has
	bytes   int64    // of those that it has fetched
	settled bool     // the account is for all rows of the read
	least   int64    // what the account is for at least, if it is that of the read's permit
}

// unreserved is the error of a read that has to wait for a reservation of so many bytes.
type unreserved struct {
	bytes   int64
	settled bool
}

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
	r, _ := ctx.Value(reservationKey{}).(*reservation)
	return r
}

// reserving returns the reservation for a read that begins, without an account, nil for urgent reads and for parts of a
// read that has one.
func (s *Store) reserving(ctx context.Context) *reservation {
	if backend.IsUrgent(ctx) || reservationOf(ctx) != nil {
		return nil
	}
	return &reservation{of: s.admission}
}

// retry decides about a read that has failed. If only the reservation was missing, it waits for that, and returns nil:
// the read starts over. Otherwise it returns the error.
func (r *reservation) retry(ctx context.Context, err error) error {
	var e *unreserved
	r.release()
	if r == nil || !errors.As(err, &e) {
		return err
	}
	*r = reservation{of: r.of, settled: e.settled}
	r.account, err = r.of.reserve(ctx, e.bytes)
	return err
}

// addRows adds rows that the read returns besides those that it has.
func (r *reservation) addRows(rows int64) {
	if r != nil {
		r.rows += rows
	}
}

// reserveRead prepares for the read's first statement, which returns up to rows rows, and few more bytes than bound.
func (s *Store) reserveRead(ctx context.Context, rows int, bound int64) error {
	r := reservationOf(ctx)
	if r == nil || r.account != nil {
		return nil
	}
	n := min(int64(rows)*largestRow, bound)
	n = max(n, max(int64(rows), r.rows-r.seen)*max(leastRowBytes, s.index.AverageValue()))
	if r.account = r.of.tryReserve(ctx, n); r.account == nil {
		return &unreserved{bytes: n}
	}
	return nil
}

// tryReserve is reserve without waiting. It returns nil if the caller would have to wait.
func (q *admission) tryReserve(ctx context.Context, bytes int64) *Account {
	k := &Account{of: q, caller: q.caller(ctx), bytes: bytes}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.results.callers) > 0 || !q.admits(k.caller) {
		return nil
	}
	q.count(k.caller, bytes)
	return k
}

// read corrects the account after the read got rows, of which the fetched ones have so many bytes. If all its rows will
// need more than there is, it must start over.
func (r *reservation) read(rows int, bytes int64) error {
	if r == nil {
		return nil
	}
	r.seen += int64(rows)
	r.bytes += bytes
	if r.account == nil || r.seen == 0 {
		return nil
	}
	need := r.bytes + int64(float64(r.bytes)/float64(r.seen)*float64(max(0, r.rows-r.seen)))
	if !r.account.resize(max(need, r.least), r.settled) {
		return &unreserved{need, true}
	}
	return nil
}

// rowsCounted is what a reservation has counted.
type rowsCounted struct{ seen, bytes int64 }

// counted returns what r has counted, for recount.
func (r *reservation) counted() (c rowsCounted) {
	if r != nil {
		c = rowsCounted{r.seen, r.bytes}
	}
	return c
}

// recount forgets rows that were read since then, and are held no longer. The next ones replace them in the account.
func (r *reservation) recount(c rowsCounted) {
	if r != nil {
		r.seen, r.bytes = c.seen, c.bytes
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

// acquireReserved waits for a permit of a read whose result accounts for so many bytes at first, and makes that the
// read's reservation, unless it has one.
func (q *admission) acquireReserved(ctx context.Context, bytes int64) (*Permit, error) {
	r := reservationOf(ctx)
	if r == nil || r.account != nil {
		return q.acquireOnce(ctx)
	}
	bytes = max(bytes, leastRowBytes)
	permit, err := q.acquireWith(ctx, bytes)
	if err == nil {
		r.account, r.least, r.settled = permit.result, bytes, true
	}
	return permit, err
}

func (r *reservation) release() {
	if r != nil && r.account != nil {
		r.account.Release(math.MaxInt64)
	}
}

// encode turns the reservation of a finished read into a permit to encode its result, which then accounts for it. A
// result that is small, or not to be encoded, counts no longer; was is the permit that the read has had.
func (r *reservation) encode(ctx context.Context, was *Permit, large bool) (*Permit, error) {
	if r == nil || r.account == nil || r.least > 0 {
		return was, nil
	}
	if !large || r.bytes < smallResult {
		r.release()
		return was, nil
	}
	was.End()
	r.account.resize(r.bytes, true)
	permit, err := r.account.encode(ctx)
	if err != nil {
		r.release()
		return nil, err
	}
	return permit, nil
}
