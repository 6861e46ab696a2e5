package store

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// reserved returns the bytes that all accounts are for.
func reserved(s *Store) int64 {
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	return s.admission.accounted
}

// waitingForMemory returns how many reads and writes wait until there is memory for their results.
func waitingForMemory(s *Store) (n int64) {
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	for _, l := range []*fairQueue{&s.admission.reads, &s.admission.results} {
		for _, line := range l.waiting {
			n += int64(line.Len())
		}
	}
	return n
}

// Reads of values that are not in memory reserve memory before their statements. They count until their results are
// encoded.
func TestReadsReserveWhatTheyFetch(t *testing.T) {
	const rows, size, clients = longRead + 10, 1 << 10, 16
	const most = DefaultResultBytes / 4 * 3 / heldBytes
	eachIndex(t, func(t *testing.T, cfg Config) {
		var running atomic.Int64
		var gate atomic.Pointer[chan struct{}]
		hold := func() error {
			if g := gate.Load(); g != nil {
				running.Add(1)
				<-*g
			}
			return nil
		}
		f := &faults{Backend: openSQLite(t)}
		f.beforeRows = func(context.Context, []backend.RowID) error { return hold() }
		f.beforeRange = func(_ context.Context, q backend.RangeQuery) error {
			if q.KeysOnly {
				return nil
			}
			return hold()
		}
		cfg.CacheBytes = 1
		s := openStore(t, f, cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is complete", s.index.Complete)
		}
		many(t, s, rows, rows, size)
		old := s.Revision()
		put(t, s, "other", "")
		for name, req := range map[string]*RangeRequest{
			"list":             {},
			"short page":       {Limit: longRead},
			"sorted":           {Order: SortDescend},
			"older revision":   {Revision: old},
			"sorted by values": {Target: SortValue},
		} {
			t.Run(name, func(t *testing.T) {
				req.Key, req.End, req.KeepPermit = []byte("k"), []byte("l"), true
				release := make(chan struct{})
				gate.Store(&release)
				running.Store(0)
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						res, err := s.Range(within(t), req)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Permit.End()
						if res.Permit == nil || res.Permit.result.Bytes() < sizeOf(res.Rows) {
							t.Error("a result does not count")
						}
					})
				}
				for ctx := within(t); reserved(s) != most*heldBytes; runtime.Gosched() {
					if ctx.Err() != nil {
						t.Error("the reads do not reserve all there is")
						break
					}
				}
				awaitWaitingForMemory(t, s, clients-most)
				if n, bytes := running.Load(), reserved(s); n > most || bytes != most*heldBytes {
					t.Errorf("%d statements run, %d bytes are reserved", n, bytes)
				}
				gate.Store(nil)
				close(release)
				wg.Wait()
				if got := reserved(s); got != 0 {
					t.Errorf("%d bytes are reserved after all reads", got)
				}
			})
		}
	})
}

// A read that turns out to be much larger than its reservation starts over, unless it is alone or has done so. It waits
// accounts nothing.
func TestReadsThatNeedMoreStartOver(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	ctx := within(t)
	others := s.Charge(ctx, 1)
	runs := 0
	r := s.reserving(ctx, 1)
	read := func(ctx context.Context) error {
		runs++
		reservationOf(ctx).addRows(1000)
		if err := s.reserveRead(ctx, 1000, heldBytes); err != nil {
			return err
		}
		if runs == 1 {
			defer others.Release(1)
		}
		return reservationOf(ctx).read(10, heldBytes, heldBytes)
	}
	err := read(r.with(ctx))
	if err == nil || r.retry(ctx, err) != nil {
		t.Fatalf("a read that needs more than there is: %v", err)
	}
	if err := read(r.with(ctx)); err != nil || reserved(s) != 100*heldBytes {
		t.Errorf("%d bytes are reserved, %v", reserved(s), err)
	}
	gone, leave := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		waits := s.reserving(gone, 1)
		done <- waits.retry(gone, s.reserveRead(waits.with(gone), 1, heldBytes))
	}()
	awaitWaitingForMemory(t, s, 1)
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("an abandoned read: %v", err)
	}
	urgent := backend.Urgent(ctx)
	if err := s.reserveRead(s.reserving(urgent, 1).with(urgent), 1000, heldBytes); err != nil {
		t.Errorf("an urgent read: %v", err)
	}
	r.release()
	if n := reserved(s); n != 0 {
		t.Errorf("%d bytes are reserved after all reads", n)
	}
}

// awaitWaitingForMemory waits until n reads wait for memory.
func awaitWaitingForMemory(t *testing.T, s *Store, n int64) {
	t.Helper()
	for ctx := within(t); waitingForMemory(s) != n; runtime.Gosched() {
		if ctx.Err() != nil {
			t.Errorf("%d reads wait for memory, want %d", waitingForMemory(s), n)
			return
		}
	}
}

// A chunk of a stream counts while it is sent. Between chunks a stream holds no memory while it waits.
func TestStreamsReserveEachChunk(t *testing.T) {
	for _, order := range []SortOrder{SortNone, SortDescend} {
		s := streamStore(t, 3*streamFirst, Config{})
		last := 0
		_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Order: order},
			func(rows []*Row, is bool) error {
				if got := reserved(s); got != sizeOf(rows) {
					t.Errorf("%d bytes are reserved for a chunk of %d", got, sizeOf(rows))
				}
				if is {
					last++
				}
				return nil
			})
		if got := reserved(s); err != nil || got != 0 || last != 1 {
			t.Errorf("%d last chunks, then %d bytes are reserved, %v", last, got, err)
		}
	}
}

// What is too large for one message is not read to its end, and a transaction that returns it changes nothing. It may
// be read all the same by callers that do not encode it, in parts, and to sort by values.
func TestResultsThatAreTooLargeForAMessage(t *testing.T) {
	const message = 3 // statements that read what a message can have
	eachIndex(t, func(t *testing.T, cfg Config) {
		var statements atomic.Int64
		f := &faults{Backend: openSQLite(t)}
		f.beforeRows = func(context.Context, []backend.RowID) error {
			statements.Add(1)
			return nil
		}
		cfg.CacheBytes, cfg.messageBytes = 1, message*heldBytes
		s := openStore(t, f, cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is complete", s.index.Complete)
		}
		const rows, size = 60, heldBytes / 10
		many(t, s, rows, 10, size)
		before := s.Revision()
		all := func(change func(*RangeRequest)) *RangeRequest {
			req := &RangeRequest{Key: []byte("k"), End: []byte("l"), KeepPermit: true}
			change(req)
			return req
		}
		whole := func(*RangeRequest) {}
		for name, read := range map[string]func() error{
			"range": func() error {
				_, err := s.Range(within(t), all(whole))
				return err
			},
			"transaction": func() error {
				_, err := s.Txn(within(t), &Txn{KeepPermit: true, Success: []Op{{Range: all(whole)}}})
				return err
			},
			"transaction that writes": func() error {
				_, err := s.Txn(within(t), &Txn{KeepPermit: true, Success: []Op{
					{Put: &PutRequest{Key: []byte("other")}}, {Range: all(whole)},
				}})
				return err
			},
			"transaction that reads the same rows again": func() error {
				part := all(func(r *RangeRequest) { r.Limit = rows / 3 })
				_, err := s.Txn(within(t), &Txn{KeepPermit: true, Success: []Op{{Range: part}, {Range: part}}})
				return err
			},
		} {
			if cfg.DisableIndex && name != "range" {
				continue // the rows are loaded before the transaction is evaluated
			}
			statements.Store(0)
			if err := read(); !errors.Is(err, ErrResultTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
			if n := statements.Load(); n > message+1 {
				t.Errorf("%s: %d statements", name, n)
			}
			if n := reserved(s); n != 0 {
				t.Errorf("%s: %d bytes are still reserved", name, n)
			}
		}
		if s.Revision() != before {
			t.Error("a transaction that failed has changed something")
		}
		for name, req := range map[string]*RangeRequest{
			"not encoded":        all(func(r *RangeRequest) { r.KeepPermit = false }),
			"a page":             all(func(r *RangeRequest) { r.Limit = rows / 3 }),
			"sorted by values":   all(func(r *RangeRequest) { r.Target, r.Limit = SortValue, 1 }),
			"keys":               all(func(r *RangeRequest) { r.KeysOnly = true }),
			"keys out of values": all(func(r *RangeRequest) { r.Target, r.KeysOnly = SortValue, true }),
		} {
			res, err := s.Range(within(t), req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			res.Permit.End()
		}
	})
}

// Values that are in memory count, too: a transaction must not write and then find that its result cannot be sent.
func TestCachedResultsThatAreTooLargeForAMessage(t *testing.T) {
	const rows, size = 40, 1 << 10
	s := openStore(t, openSQLite(t), Config{messageBytes: rows * size})
	eventually(t, "the index is complete", s.index.Complete)
	many(t, s, rows, rows, size)
	before := s.Revision()
	all := &RangeRequest{Key: []byte("k"), End: []byte("l"), KeepPermit: true}
	first := &RangeRequest{Key: []byte("k"), End: []byte("l"), Target: SortValue, Limit: 1}
	write := Op{Put: &PutRequest{Key: []byte("other")}}
	for _, ops := range [][]Op{{{Range: all}}, {write, {Range: all}}, {write, {Range: first}, {Range: all}}} {
		if _, err := s.Txn(within(t), &Txn{KeepPermit: true, Success: ops}); !errors.Is(err, ErrResultTooLarge) {
			t.Errorf("%d operations: %v", len(ops), err)
		}
	}
	if _, err := s.Txn(within(t), &Txn{KeepPermit: true, Success: []Op{{Range: first}, {Range: first}}}); err != nil {
		t.Errorf("the first of sorted rows: %v", err)
	}
	deleted := &DeleteRequest{Key: []byte("k"), End: []byte("l"), PrevKV: true}
	if _, err := s.Delete(within(t), deleted); !errors.Is(err, ErrResultTooLarge) {
		t.Errorf("a delete: %v", err)
	}
	if s.Revision() != before || reserved(s) != 0 {
		t.Errorf("revision %d, want %d; %d bytes are still reserved", s.Revision(), before, reserved(s))
	}
}
