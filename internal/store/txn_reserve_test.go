package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Transactions reserve memory for the values that they fetch, whether they write or not. Results that would need more
// than there is do not exist at a time.
func TestTransactionsReserveWhatTheyFetch(t *testing.T) {
	const rows, size, limit, clients = longRead + 10, 32 << 10, 4 << 20, 16
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1, ResultBytes: limit})
	many(t, s, rows, rows, size)
	old := s.Revision()
	many(t, s, rows, rows, size)
	eventually(t, "the index is complete", s.index.Complete)
	list := func(r RangeRequest) Op {
		r.Key, r.End = []byte("k"), []byte("l")
		return Op{Range: &r}
	}
	write := Op{Put: &PutRequest{Key: []byte("written")}}
	var gets []Op
	for i := range rows {
		key := fmt.Appendf(nil, "k%06d", i)
		gets = append(gets, Op{Range: &RangeRequest{Key: key}})
	}
	half := list(RangeRequest{Limit: longRead / 2})
	for name, ops := range map[string][]Op{
		"list": {list(RangeRequest{})}, "list in a write": {list(RangeRequest{}), write},
		"short lists": {half, half}, "short lists in a write": {half, half, write},
		"older revision":            {list(RangeRequest{Revision: old})},
		"older revision in a write": {list(RangeRequest{Revision: old}), write},
		"gets":                      gets, "gets in a write": append(slices.Clone(gets), write),
		"sorted": {list(RangeRequest{Target: SortMod})},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			var held atomic.Int64
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					res, err := s.Txn(within(t), &Txn{Success: ops, KeepPermit: true})
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Permit.End()
					if res.Permit == nil || res.Permit.result.Bytes() < longRead*size {
						t.Error("a result does not count")
						return
					}
					res.Permit.pass() // as if its time is over
					held.Add(1)
					<-release
				})
			}
			eventually(t, "all others wait", func() bool { return held.Load()+waitingForMemory(s) == clients })
			if n := held.Load(); n == 0 || n > 2 {
				t.Errorf("%d results exist at a time", n)
			}
			close(release)
			wg.Wait()
			if n := reserved(s); n != 0 {
				t.Errorf("%d bytes are reserved after all transactions", n)
			}
		})
	}
}

// A transaction whose client leaves during its evaluation changes nothing, and reserves nothing for good.
func TestClientsThatLeaveReserveNothing(t *testing.T) {
	arrived, open := make(chan struct{}), make(chan struct{})
	f := &faults{Backend: openSQLite(t)}
	s := openStore(t, f, Config{CacheBytes: 1})
	many(t, s, 10, 10, smallResult)
	eventually(t, "the index is complete", s.index.Complete)
	f.beforeRows = func(context.Context, []backend.RowID) error {
		close(arrived)
		<-open
		return nil
	}
	ctx, leave := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := s.Txn(ctx, &Txn{KeepPermit: true, Success: []Op{
			{Put: &PutRequest{Key: []byte("written")}}, {Range: &RangeRequest{Key: []byte("k"), End: []byte("l")}},
		}})
		done <- err
	}()
	<-arrived
	if reserved(s) == 0 {
		t.Error("nothing is reserved before the first statement")
	}
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the transaction returns %v", err)
	}
	if n := reserved(s); n != 0 {
		t.Errorf("%d bytes are reserved once the client has left", n)
	}
	close(open)
	rev := put(t, s, "next", "") // after that transaction has ended
	if n := reserved(s); n != 0 || rev != 3 {
		t.Errorf("%d bytes are reserved, revision %d", n, rev)
	}
}

// A result that will be encoded several times counts as often.
func TestCopiesAreReserved(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1})
	many(t, s, 10, 10, smallResult)
	eventually(t, "the index is complete", s.index.Complete)
	req := &RangeRequest{Key: []byte("k"), End: []byte("l"), KeepPermit: true, Copies: 3}
	res, err := s.Range(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	permits := []*Permit{res.Permit}
	var puts []Op
	for i := range 10 {
		puts = append(puts, Op{Put: &PutRequest{Key: fmt.Appendf(nil, "k%06d", i), PrevKV: true}})
	}
	for _, ops := range [][]Op{{{Range: req}}, {{Range: req}, {Put: &PutRequest{Key: []byte("other")}}}, puts} {
		res, err := s.Txn(within(t), &Txn{Success: ops, KeepPermit: true, Copies: 3})
		if err != nil {
			t.Fatal(err)
		}
		res.Permit.pass() // as if its time is over
		permits = append(permits, res.Permit)
	}
	for i, permit := range permits {
		if n, want := permit.result.Bytes(), 3*sizeOf(res.Rows); n != want {
			t.Errorf("result %d: %d bytes are reserved, want %d", i, n, want)
		}
		permit.End()
	}
}

// A write that fetches little does not wait for clients that receive their results slowly.
func TestSmallFetchesOfWritesDoNotWait(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1})
	many(t, s, 10, 10, 1000)
	eventually(t, "the index is complete", s.index.Complete)
	slow := s.Charge(within(t), DefaultResultBytes)
	defer slow.Release(DefaultResultBytes)
	get := []Op{{Put: &PutRequest{Key: []byte("k000000"), PrevKV: true}}}
	for _, copies := range []int64{1, 5} {
		res, err := s.Txn(within(t), &Txn{Success: get, Copies: copies})
		if err != nil || res.Results[0].Put.Prev == nil {
			t.Errorf("a put with %d copies returns %+v, %v", copies, res, err)
		}
		many(t, s, 10, 10, 1000) // its value is not in memory
	}
	if n := reserved(s); n != DefaultResultBytes {
		t.Errorf("%d bytes are reserved after the put", n)
	}
	s.Charge(within(t), DefaultResultBytes/4)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, &PutRequest{Key: []byte("k000001"), PrevKV: true})
		done <- err
	}()
	awaitWaitingForMemory(t, s, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a put without any memory returns %v", err)
	}
}

// The size of a large value says little about those of a transaction's other operations.
func TestLargeValueBesideManySmallOnes(t *testing.T) {
	const large = 1 << 20
	var most int64
	f := &faults{Backend: openSQLite(t)}
	s := openStore(t, f, Config{CacheBytes: 1})
	many(t, s, 2*longRead, 2*longRead, 1)
	put(t, s, "large", string(make([]byte, large)))
	put(t, s, "last", "")
	eventually(t, "the index is complete", s.index.Complete)
	f.beforeRows = func(context.Context, []backend.RowID) error {
		most = max(most, reserved(s))
		return nil
	}
	ops := []Op{
		{Range: &RangeRequest{Key: []byte("large")}},
		{Range: &RangeRequest{Key: []byte("k"), End: []byte("l")}},
	}
	for _, ops := range [][]Op{ops, append(ops, Op{Put: &PutRequest{Key: []byte("other")}})} {
		most = 0
		if _, err := s.Txn(within(t), &Txn{Success: ops}); err != nil {
			t.Fatal(err)
		}
		if most < large || most > DefaultResultBytes/4 {
			t.Errorf("%d bytes are reserved at most", most)
		}
	}
}
