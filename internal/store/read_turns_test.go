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

// oneTurn returns turns with a single turn, and that turn, already taken.
func oneTurn(t *testing.T) (*turns, *Turn) {
	t.Helper()
	q := newTurns(func(ctx context.Context) any { return ctx.Value(callerKey{}) }, nil)
	q.free = 1
	first, err := q.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.timer.Stop() // the test ends it
	return q, first
}

// inLine waits until n reads of a caller are queued.
func inLine(t *testing.T, q *turns, caller string, n int) {
	t.Helper()
	ctx := within(t)
	for have := -1; have != n; {
		if ctx.Err() != nil {
			t.Fatalf("%d reads of %s wait, want %d", have, caller, n)
		}
		runtime.Gosched()
		q.mu.Lock()
		have = 0
		for _, l := range []*lines{&q.encoding, &q.reads, &q.results} {
			if line := l.waiting[caller]; line != nil {
				have += line.Len()
			}
		}
		q.mu.Unlock()
	}
}

// Callers take turns, however many reads each of them has.
func TestTurnsAreFair(t *testing.T) {
	q, first := oneTurn(t)
	var (
		wg    sync.WaitGroup
		order []string // guarded by the turn
	)
	for _, w := range []struct {
		caller string
		reads  int
	}{{"many", 4}, {"two", 2}, {"one", 1}} {
		for i := range w.reads {
			wg.Go(func() {
				turn, err := q.take(as(t.Context(), w.caller))
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, w.caller)
				turn.End()
			})
			inLine(t, q, w.caller, i+1)
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

// An abandoned read leaves the queue, and its turn, if it has one, goes to the next read.
func TestAbandonedTurns(t *testing.T) {
	q, first := oneTurn(t)
	ctx, leave := context.WithCancel(as(t.Context(), "gone"))
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if turn, err := q.take(ctx); err == nil {
				turn.End() // it got a turn before it left
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		inLine(t, q, "gone", i+1)
	}
	leave()
	first.End()
	wg.Wait()
	if q.free != 1 || len(q.reads.waiting) != 0 || len(q.reads.callers) != 0 {
		t.Errorf("after all reads: %d free, %v, %v", q.free, q.reads.waiting, q.reads.callers)
	}
	if _, err := q.take(canceled(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled read gets %v", err)
	}
}

// A turn that is never ended does not keep others waiting.
func TestTurnsEndByThemselves(t *testing.T) {
	q := newTurns(nil, nil)
	q.free = 1
	first, err := q.take(within(t))
	if err != nil {
		t.Fatal(err)
	}
	first.timer.Reset(0)
	if _, err := q.take(within(t)); err != nil {
		t.Fatal(err)
	}
}

// Long reads wait for a turn, others do not.
func TestLongReadsTakeTurns(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for i := range 2 * walkLocked {
		put(t, s, fmt.Sprintf("%04d", i), "value")
	}
	s.turns.mu.Lock()
	s.turns.free = 1
	s.turns.mu.Unlock()
	all := RangeRequest{Key: []byte{0}, End: []byte{0}, KeepTurn: true}
	res, err := s.Range(within(t), &all)
	if err != nil || res.Turn == nil {
		t.Fatalf("got %v, %v", res, err)
	}
	res.Turn.timer.Stop()
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
			_, err := s.Txn(ctx, &Txn{Success: []Op{{Range: &page}, {Range: &sorted}, {Range: &old}}}) // in one turn
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
				t.Fatalf("a %s takes no turn: %v", name, err)
			default:
			}
			s.turns.mu.Lock()
			waits = len(s.turns.reads.callers)+len(s.turns.encoding.callers) > 0
			s.turns.mu.Unlock()
		}
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a %s abandoned while it waits: %v", name, err)
		}
	}
	res.Turn.End()
	for name, read := range reads {
		if err := read(within(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if s.turns.free != 1 {
		t.Errorf("%d turns are free", s.turns.free)
	}
}

// Each chunk of a sorted stream takes a turn, and the stream holds none while the client has a chunk.
func TestSortedStreamsTakeATurnForEachChunk(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for i := range 5 * longRead {
		put(t, s, fmt.Sprintf("%04d", i), strings.Repeat("x", chunkBytes/longRead/2)) // 200 rows make a chunk
	}
	eventually(t, "the index is complete", s.index.Complete)
	free := func() int {
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		return s.turns.free
	}
	all := free()
	ctx, leave := context.WithCancel(t.Context())
	chunks := 0
	req := &RangeRequest{Key: []byte{0}, End: []byte{0}, Order: SortDescend}
	_, err := s.RangeStream(ctx, req, func([]*Row, bool) error {
		if n := free(); n != all {
			t.Errorf("%d of %d turns are free", n, all)
		}
		chunks++
		if chunks == 1 {
			leave() // ends the wait for a turn; reads from memory do not check the context
		}
		return nil
	})
	if chunks != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d chunks, %v", chunks, err)
	}
}
