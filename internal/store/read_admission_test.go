package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

type callerKey struct{}

func as(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// onePermit returns an admission with a single permit, and that permit, already acquired.
func onePermit(t *testing.T) (*admission, *Permit) {
	t.Helper()
	q := newAdmission(DefaultResultBytes, func(ctx context.Context) any { return ctx.Value(callerKey{}) }, nil)
	q.free = 1
	first, err := q.acquire(t.Context(), notSmall)
	if err != nil {
		t.Fatal(err)
	}
	first.timer.Stop() // the test ends it
	return q, first
}

// awaitWaiting waits until n reads of a caller are queued.
func awaitWaiting(t *testing.T, q *admission, caller string, n int) {
	t.Helper()
	ctx := within(t)
	for have := -1; have != n; {
		if ctx.Err() != nil {
			t.Fatalf("%d reads of %s wait, want %d", have, caller, n)
		}
		runtime.Gosched()
		q.mu.Lock()
		have = 0
		for _, l := range []*fairQueue{&q.encoding, &q.reads, &q.results} {
			if line := l.waiting[caller]; line != nil {
				have += line.Len()
			}
		}
		q.mu.Unlock()
	}
}

// Callers get permits in turn, however many reads each of them has.
func TestPermitsAreFair(t *testing.T) {
	q, first := onePermit(t)
	var (
		wg    sync.WaitGroup
		order []string // guarded by the permit
	)
	for _, w := range []struct {
		caller string
		reads  int
	}{{"many", 4}, {"two", 2}, {"one", 1}} {
		for i := range w.reads {
			wg.Go(func() {
				permit, err := q.acquire(as(t.Context(), w.caller), notSmall)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, w.caller)
				permit.End()
			})
			awaitWaiting(t, q, w.caller, i+1)
		}
	}
	first.End()
	wg.Wait()
	if want := []string{"many", "two", "one", "many", "two", "many", "many"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	if q.free != 1 || len(q.reads.waiting) != 0 || len(q.reads.callers) != 0 {
		t.Errorf("after all reads: %d free, %v, %v", q.free, q.reads.waiting, q.reads.callers)
	}
}

// An abandoned read leaves the queue, and its permit, if it has one, goes to the next read.
func TestAbandonedPermits(t *testing.T) {
	q, first := onePermit(t)
	ctx, leave := context.WithCancel(as(t.Context(), "gone"))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if permit, err := q.acquire(ctx, notSmall); err == nil {
				permit.End() // it got a permit before it left
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		awaitWaiting(t, q, "gone", i+1)
	}
	leave()
	first.End()
	wg.Wait()
	if q.free != 1 || q.expected != 0 || len(q.reads.waiting) != 0 || len(q.reads.callers) != 0 {
		t.Errorf("after all reads: %d free, %d bytes expected, %v, %v", q.free, q.expected, q.reads.waiting,
			q.reads.callers)
	}
	if _, err := q.acquire(canceled(t), notSmall); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled read gets %v", err)
	}
}

// A permit that is never ended does not keep others waiting.
func TestPermitsEndByThemselves(t *testing.T) {
	q := newAdmission(DefaultResultBytes, nil, nil)
	q.free = 1
	first, err := q.acquire(within(t), notSmall)
	if err != nil {
		t.Fatal(err)
	}
	first.timer.Reset(0)
	if _, err := q.acquire(within(t), notSmall); err != nil {
		t.Fatal(err)
	}
}

// Long reads wait for a permit, others do not.
func TestLongReadsNeedPermits(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for i := range 2 * walkLocked {
		put(t, s, fmt.Sprintf("%04d", i), "value")
	}
	s.admission.mu.Lock()
	s.admission.free = 1
	s.admission.mu.Unlock()
	all := RangeRequest{Key: []byte{0}, End: []byte{0}, KeepPermit: true}
	res, err := s.Range(within(t), &all)
	if err != nil || res.Permit == nil {
		t.Fatalf("got %v, %v", res, err)
	}
	res.Permit.timer.Stop()
	page := RangeRequest{Key: []byte{0}, End: []byte{0}, Limit: longRead}
	count := RangeRequest{Key: []byte{0}, End: []byte{0}, CountOnly: true}
	for _, short := range []*RangeRequest{{Key: []byte("0001")}, &page, &count} {
		if _, err := s.Range(within(t), short); err != nil {
			t.Errorf("%+v: %v", short, err)
		}
	}
	put(t, s, "0001", "value")
	sorted := RangeRequest{Key: []byte{0}, End: []byte{0}, Order: SortDescend}
	reads := map[string]func(ctx context.Context) error{
		"list": func(ctx context.Context) error {
			_, err := s.Range(ctx, &RangeRequest{Key: []byte{0}, End: []byte{0}})
			return err
		},
		"sorted list": func(ctx context.Context) error {
			_, err := s.Range(ctx, &sorted)
			return err
		},
		"transaction": func(ctx context.Context) error {
			old := sorted
			old.Revision = 5
			_, err := s.Txn(ctx, &Txn{Success: []Op{{Range: &page}, {Range: &sorted}, {Range: &old}}})
			return err
		},
		"stream": func(ctx context.Context) error {
			_, err := s.RangeStream(ctx, &RangeRequest{Key: []byte{0}, End: []byte{0}},
				func([]*Row, bool) error { return nil })
			return err
		},
		"sorted stream": func(ctx context.Context) error {
			_, err := s.RangeStream(ctx, &sorted, func([]*Row, bool) error { return nil })
			return err
		},
	}
	for name, read := range reads {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- read(ctx) }()
		for waits := false; !waits; {
			select {
			case err := <-done:
				t.Fatalf("a %s needs no permit: %v", name, err)
			default:
			}
			s.admission.mu.Lock()
			waits = len(s.admission.reads.callers)+len(s.admission.encoding.callers) > 0
			s.admission.mu.Unlock()
		}
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a %s abandoned while it waits: %v", name, err)
		}
	}
	res.Permit.End()
	for name, read := range reads {
		if err := read(within(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	if s.admission.free != 1 {
		t.Errorf("%d permits are free", s.admission.free)
	}
}

// Each chunk of a sorted stream acquires a permit, and the stream holds none while the client has a chunk.
func TestSortedStreamsNeedAPermitForEachChunk(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for i := range 5 * longRead {
		put(t, s, fmt.Sprintf("%04d", i), strings.Repeat("x", chunkBytes/longRead/2)) // 200 rows make a chunk
	}
	eventually(t, "the index is complete", s.index.Complete)
	free := func() int {
		s.admission.mu.Lock()
		defer s.admission.mu.Unlock()
		return s.admission.free
	}
	all := free()
	ctx, leave := context.WithCancel(t.Context())
	chunks := 0
	req := &RangeRequest{Key: []byte{0}, End: []byte{0}, Order: SortDescend}
	_, err := s.RangeStream(ctx, req, func([]*Row, bool) error {
		if n := free(); n != all {
			t.Errorf("%d of %d permits are free", n, all)
		}
		chunks++
		if chunks == 1 {
			leave() // ends the wait for a permit; reads from memory do not check the context
		}
		return nil
	})
	if chunks != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d chunks, %v", chunks, err)
	}
}
