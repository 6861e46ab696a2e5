package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// limitedBytes is a limit of which the result of a long read is not a small part.
const limitedBytes = 4 << 20

// longResult is what such a result has in bytes, at least.
const longResult = largestRow + largestRow/2

// withoutMemory returns a store with more keys than a short read has, a transaction that writes and returns them all,
// and a result that fills the limit.
func withoutMemory(t *testing.T, cfg Config) (*Store, *Txn, *Account) {
	t.Helper()
	cfg.ResultBytes = limitedBytes
	cfg.Caller = func(ctx context.Context) any { return ctx.Value(callerKey{}) }
	s := openStore(t, openSQLite(t), cfg)
	eventually(t, "the index is complete", s.index.Complete)
	for i := range longRead + 1 {
		put(t, s, fmt.Sprint("object", i), strings.Repeat("v", longResult/longRead))
	}
	ctx := as(t.Context(), "slow")
	permit, err := s.AcquirePermit(ctx, limitedBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer permit.End()
	return s, &Txn{KeepPermit: true, Success: []Op{
		{Put: &PutRequest{Key: []byte("written")}},
		{Range: &RangeRequest{Key: []byte("object"), End: []byte("objecu")}},
	}}, permit.Charge(ctx, limitedBytes)
}

// A transaction that writes and returns many rows is not evaluated until there is memory for its result. The result
// counts until it is encoded. Other transactions do not wait for it.
func TestWritesReserveMemoryForTheirResults(t *testing.T) {
	s, txn, account := withoutMemory(t, Config{})
	ctx := as(within(t), "reads")
	type answer struct {
		res *TxnResult
		err error
	}
	answers := make(chan answer, 1)
	run := func(ctx context.Context) {
		res, err := s.Txn(ctx, txn)
		answers <- answer{res, err}
	}
	gone, leave := context.WithCancel(ctx)
	go run(gone)
	awaitWaiting(t, s.admission, "reads", 1)
	leave()
	if a := <-answers; !errors.Is(a.err, context.Canceled) {
		t.Errorf("the canceled transaction returns %v", a.err)
	}
	go run(ctx)
	awaitWaiting(t, s.admission, "reads", 1)
	reading := func(limit int64, count bool) *Txn {
		r := *txn.Success[1].Range
		r.Limit, r.CountOnly = limit, count
		return &Txn{KeepPermit: true, Success: []Op{txn.Success[0], {Range: &r}}}
	}
	for _, other := range []*Txn{{Success: txn.Success[:1]}, reading(longRead, false), reading(0, true)} {
		if res, err := s.Txn(ctx, other); err != nil || res.Permit != nil {
			t.Errorf("a transaction that returns few rows: %v", err)
		}
	}
	if get(t, s, "written", 0).Version != 3 {
		t.Error("a transaction was evaluated without memory")
	}
	account.Release(limitedBytes)
	a := <-answers
	if a.err != nil || len(a.res.Results[1].Range.Rows) != longRead+1 || a.res.Permit == nil {
		t.Fatalf("got %+v, %v", a.res, a.err)
	}
	counts := func(least, most int64) {
		t.Helper()
		if n := reserved(s); n < least || n > most {
			t.Errorf("%d bytes are accounted for, want %d to %d", n, least, most)
		}
	}
	counts(longResult/10*9, longResult/10*11)
	a.res.Permit.End()
	counts(0, 0)
	txn.KeepPermit = false
	if res, err := s.Txn(ctx, txn); err != nil || res.Permit != nil {
		t.Errorf("without KeepPermit: %+v, %v", res, err)
	}
	counts(0, 0)
	txn.Success[0].Put.Lease = 77
	if _, err := s.Txn(ctx, txn); !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("with an unknown lease: %v", err)
	}
	counts(0, 0)
}

// Requests that wait for memory for their results take up space in the queue.
func TestRequestsThatWaitForMemoryAreBounded(t *testing.T) {
	s, txn, account := withoutMemory(t, Config{QueueRequests: 6, QueueBytes: 3000})
	ctx, leave := context.WithCancel(as(t.Context(), "reads"))
	done := make(chan error, 3)
	for i := range cap(done) {
		go func() {
			_, err := s.Txn(ctx, txn)
			done <- err
		}()
		awaitWaiting(t, s.admission, "reads", i+1)
	}
	if _, err := s.Txn(within(t), txn); !errors.Is(err, ErrTooManyRequests) {
		t.Errorf("one more request: %v", err)
	}
	put(t, s, "short", "")
	leave()
	for range cap(done) {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	put := &PutRequest{Key: []byte("large"), Value: make([]byte, 1200)}
	large := &Txn{Success: append([]Op{{Put: put}}, txn.Success...)}
	ctx, leave = context.WithCancel(as(t.Context(), "reads"))
	go func() {
		_, err := s.Txn(ctx, large)
		done <- err
	}()
	awaitWaiting(t, s.admission, "reads", 1)
	if _, err := s.Txn(within(t), txn); !errors.Is(err, ErrTooManyRequests) {
		t.Errorf("a request of more bytes: %v", err)
	}
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	account.Release(limitedBytes)
	res, err := s.Txn(within(t), txn)
	if err != nil {
		t.Fatal(err)
	}
	res.Permit.End()
}
