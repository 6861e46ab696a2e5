package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

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
			answers := gather(context.WithValue(t.Context(), smallGetKey{}, true), t, g, f, 1, 2, 3)
			g.let <- nil
			<-g.asked
			g.let <- err
			if got := <-answers[2]; !errors.Is(got.err, errLargeRows) {
				t.Errorf("got %v, %v", got.rows, got.err)
			}
		})
	}
}
