package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func caller(ctx context.Context) any { return ctx.Value(callerKey{}) }

// reservedByGets returns the bytes that gets account for.
func reservedByGets(s *Store) int64 {
	s.gets.mu.Lock()
	defer s.gets.mu.Unlock()
	return s.gets.accounted
}

// Gets of values that are not in memory hold no more memory at a time than there is for them, whether or not the index
// can answer them. The results count until they are encoded.
func TestGetsReserveWhatTheyFetch(t *testing.T) {
	const size, clients, limit = 256 << 10, 64, 16 << 20
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.CacheBytes, cfg.ResultBytes, cfg.Caller = 1, limit, caller
		s := openStore(t, openSQLite(t), cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is complete", s.index.Complete)
		}
		many(t, s, clients, 1, size)
		old := s.Revision()
		put(t, s, "other", "")
		for name, revision := range map[string]int64{"current": 0, "older": old} {
			t.Run(name, func(t *testing.T) {
				var peak atomic.Int64
				start := make(chan struct{})
				var wg sync.WaitGroup
				for i := range clients {
					wg.Go(func() {
						<-start
						req := &RangeRequest{Key: fmt.Appendf(nil, "k%06d", i), Revision: revision, KeepPermit: true}
						res, err := s.Range(as(within(t), fmt.Sprint("client", i%4)), req)
						if err != nil || len(res.Rows) != 1 || res.Permit == nil {
							t.Errorf("get %d: %+v, %v", i, res, err)
							return
						}
						defer res.Permit.End()
						if n := res.Permit.result.Bytes(); n != sizeOf(res.Rows) {
							t.Errorf("get %d accounts for %d bytes, want %d", i, n, sizeOf(res.Rows))
						}
						for n, was := reservedByGets(s), peak.Load(); n > was; was = peak.Load() {
							if peak.CompareAndSwap(was, n) {
								break
							}
						}
					})
				}
				close(start)
				wg.Wait()
				// What a statement or two read beyond their reservations may come on top.
				if n := peak.Load(); n > limit/2+2*limit/2/sharedPart {
					t.Errorf("up to %d bytes were accounted for", n)
				}
				if n := reservedByGets(s); n != 0 {
					t.Errorf("%d bytes are accounted for after all gets", n)
				}
			})
		}
	})
}

// Gets that share a row, or whose shared statement failed, hold no more than others: each of them has a reply of its
// own.
func TestGetsThatShareAStatementReserve(t *testing.T) {
	const size, clients, limit = 1 << 20, 64, 16 << 20
	for name, c := range map[string]struct {
		keys int
		err  error
	}{
		"the same row":       {keys: 1},
		"a failed statement": {clients, errors.New("another's row is damaged")},
	} {
		t.Run(name, func(t *testing.T) {
			var gate atomic.Pointer[chan struct{}]
			var failed atomic.Bool
			f := &faults{Backend: openSQLite(t)}
			f.beforeRows = func(_ context.Context, ids []backend.RowID) error {
				if g := gate.Load(); g != nil {
					<-*g
				}
				if len(ids) > 1 && failed.CompareAndSwap(false, true) {
					return c.err
				}
				return nil
			}
			s := openStore(t, f, Config{CacheBytes: 1, ResultBytes: limit, Caller: caller})
			eventually(t, "the index is complete", s.index.Complete)
			many(t, s, c.keys, 1, size)
			release := make(chan struct{})
			gate.Store(&release)
			var peak atomic.Int64
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					req := &RangeRequest{Key: fmt.Appendf(nil, "k%06d", i%c.keys), KeepPermit: true}
					res, err := s.Range(as(within(t), fmt.Sprint("client", i)), req)
					if err != nil || len(res.Rows) != 1 || res.Permit == nil {
						t.Errorf("get %d: %v", i, err)
						return
					}
					for n, was := reservedByGets(s), peak.Load(); n > was; was = peak.Load() {
						if peak.CompareAndSwap(was, n) {
							break
						}
					}
					res.Permit.End()
				})
			}
			for ctx := within(t); reservedByGets(s) < clients*smallResult && ctx.Err() == nil; runtime.Gosched() {
			}
			close(release)
			wg.Wait()
			if n := peak.Load(); n > limit/2+limit/2/sharedPart+2*size {
				t.Errorf("up to %d bytes were accounted for", n)
			}
		})
	}
}

// A statement that hangs holds the memory of few gets, also where values are large: those of other clients go on.
func TestHungStatementLeavesMemoryToGets(t *testing.T) {
	const size, clients, limit = largestRow, 48, 64 << 20
	for name, keys := range map[string]int{"different rows": clients, "the same row": 1} {
		t.Run(name, func(t *testing.T) {
			var (
				f           = &faults{Backend: openSQLite(t)}
				first, hung = make(chan struct{}), make(chan struct{})
				armed       atomic.Bool
				statements  atomic.Int64
				answered    atomic.Int64
			)
			begin, end := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(hung) })
			defer func() { begin(); end() }()
			f.beforeRows = func(context.Context, []backend.RowID) error {
				if !armed.Load() {
					return nil
				}
				switch statements.Add(1) {
				case 1: // the others gather meanwhile
					<-first
				case 2:
					<-hung
				}
				return nil
			}
			// Some values are in memory, so that gets expect large ones.
			s := openStore(t, f, Config{CacheBytes: 8 * size, ResultBytes: limit, Caller: caller})
			eventually(t, "the index is complete", s.index.Complete)
			many(t, s, keys+8, 1, size)
			if n := s.expectedGet(); n != largestRow {
				t.Fatalf("gets expect %d bytes", n)
			}
			g := &s.fetcher.single
			g.mu.Lock()
			g.patience = time.Minute // nothing overtakes the first statement
			g.mu.Unlock()
			armed.Store(true)
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					req := &RangeRequest{Key: fmt.Appendf(nil, "k%06d", i%keys)}
					res, err := s.Range(as(within(t), fmt.Sprint("client", i)), req)
					if err != nil || len(res.Rows) != 1 {
						t.Errorf("get %d: %v", i, err)
					}
					answered.Add(1)
				})
			}
			const each = largestRow / smallResult
			eventually(t, "all gets that there is memory for have gathered", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				weight := each // of the first one
				for _, p := range g.queue {
					weight += p.weight
				}
				return weight == limit/2/smallResult
			})
			g.mu.Lock()
			g.patience = fetchPatience
			g.mu.Unlock()
			begin()
			hanging := int64(g.limit / each)
			eventually(t, "the other gets are answered", func() bool { return answered.Load() == clients-hanging })
			end()
			wg.Wait()
		})
	}
}

// A get for the gateway reserves memory for all copies of its row.
func TestGetsReserveCopies(t *testing.T) {
	const size, copies = 256 << 10, 5
	f := &faults{Backend: openSQLite(t)}
	s := openStore(t, f, Config{CacheBytes: 1, Caller: caller})
	eventually(t, "the index is complete", s.index.Complete)
	many(t, s, 2, 1, size)
	var reserved atomic.Int64
	f.beforeRows = func(context.Context, []backend.RowID) error {
		reserved.Store(reservedByGets(s))
		return nil
	}
	res, err := s.Range(within(t), &RangeRequest{Key: []byte("k000001"), KeepPermit: true, Copies: copies})
	if err != nil || len(res.Rows) != 1 || res.Permit == nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	if n, want := reserved.Load(), copies*s.expectedGet(); n != want {
		t.Errorf("%d bytes were reserved while the row was read, want %d", n, want)
	}
	if n, want := res.Permit.result.Bytes(), copies*sizeOf(res.Rows); n != want {
		t.Errorf("the result accounts for %d bytes, want %d", n, want)
	}
	res.Permit.End()
	if n := reservedByGets(s); n != 0 {
		t.Errorf("%d bytes are accounted for at the end", n)
	}
}

// A get that fetches a small value holds no memory afterwards, and lists that nobody receives do not delay it, not even
// those of its own client.
func TestGetsDoNotWaitForLists(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.CacheBytes, cfg.ResultBytes, cfg.Caller = 1, limitedBytes, caller
		s := openStore(t, openSQLite(t), cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is complete", s.index.Complete)
		}
		many(t, s, 8, 1, 1<<10)
		ctx := as(within(t), "slow")
		defer s.Charge(ctx, 2*limitedBytes).Release(2 * limitedBytes)
		for i := range 8 {
			res, err := s.Range(ctx, &RangeRequest{Key: fmt.Appendf(nil, "k%06d", i), KeepPermit: true})
			if err != nil || len(res.Rows) != 1 || res.Permit != nil {
				t.Errorf("get %d: %+v, %v", i, res, err)
			}
		}
		if n := reservedByGets(s); n != 0 {
			t.Errorf("%d bytes are accounted for after all gets", n)
		}
	})
}

// Large rows that one statement leaves to the next are read by the same get.
func TestSharedStatementsAreBounded(t *testing.T) {
	g, f := newGated()
	g.size, f.bytes = 100, 250
	answers := gather(t.Context(), t, g, f, 1, 2, 3, 4, 5, 6)
	g.let <- nil
	if ids := <-g.asked; len(ids) != 5 {
		t.Errorf("the second statement asked for %d rows, want 5", len(ids))
	}
	g.let <- nil
	end := make(chan struct{})
	defer close(end)
	go func() {
		for {
			select {
			case <-g.asked: // for what was left
				g.let <- nil
			case <-end:
				return
			}
		}
	}()
	for i := range answers {
		if got := <-answers[i]; got.err != nil || len(got.rows) != 1 || got.rows[0].ModRevision != int64(i+1) {
			t.Errorf("row of revision %d: %v, %v", i+1, got.rows, got.err)
		}
	}
}

// A get that has reserved memory for a small row starts over if its row was left out, or has to be read alone.
func TestSmallGetsStartOver(t *testing.T) {
	for name, err := range map[string]error{"left": nil, "failed": errors.New("another's row is damaged")} {
		t.Run(name, func(t *testing.T) {
			g, f := newGated()
			g.size, f.bytes = 100, 100
			small := context.WithValue(t.Context(), getMemoryKey{}, getMemory{smallResult, 1})
			answers := gather(small, t, g, f, 1, 2, 3)
			g.let <- nil
			<-g.asked
			g.let <- err
			if got := <-answers[2]; !errors.Is(got.err, errLargeRows) {
				t.Errorf("got %v, %v", got.rows, got.err)
			}
		})
	}
}
