package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// canceled returns a canceled context.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Abandoned calls take no place in the queue.
func TestAbandonedCallsAreDequeued(t *testing.T) {
	const places = 3
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	s := openStore(t, f, Config{QueueRequests: places})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	for range 2 { // the queue drops abandoned calls in parts
		ctx, leave := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		for i := range places {
			gone.Go(func() {
				if _, err := s.Put(ctx, &PutRequest{Key: fmt.Append(nil, "gone", i)}); !errors.Is(err,
					context.Canceled) {
					t.Errorf("an abandoned call returned %v", err)
				}
			})
			waiting(t, s, i+1)
		}
		leave()
		gone.Wait()
	}
	if n := s.seq.queue.waiting(); n != 0 {
		t.Errorf("%d calls wait", n)
	}
	for i := range places {
		wg.Go(func() { put(t, s, fmt.Sprint(i), "") })
		waiting(t, s, i+1)
	}
	close(gate.release)
	wg.Wait()
	q := s.seq.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.short.bytes != 0 || q.short.abandoned != 0 {
		t.Errorf("an empty queue counts %d bytes, %d abandoned calls", q.short.bytes, q.short.abandoned)
	}
}

// The engine does not evaluate a call that is abandoned while its batch waits for the database.
func TestAbandonedCallsOfABatchAreNotEvaluated(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	f := &faults{Backend: openSQLite(t)}
	f.beforeBegin = func(context.Context) error {
		leave()
		return nil
	}
	s := openStore(t, f, Config{})
	if _, err := s.Put(ctx, &PutRequest{Key: []byte("gone")}); !errors.Is(err, context.Canceled) {
		t.Errorf("an abandoned call returned %v", err)
	}
	if rev := put(t, s, "a", ""); rev != 2 {
		t.Errorf("revision %d after one write", rev)
	}
}

// An abandoned read reads nothing, not even in memory.
func TestAbandonedReadsReadNothing(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		for i := range 2 * walkLocked {
			put(t, s, fmt.Sprintf("%04d", i), "value")
		}
		all := RangeRequest{Key: []byte{0}, End: []byte{0}}
		sorted := all
		sorted.Order = SortDescend
		for _, req := range []RangeRequest{all, sorted} {
			if _, err := s.Range(canceled(t), &req); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: got %v", req, err)
			}
			if _, err := s.Txn(canceled(t), &Txn{Success: []Op{{Range: &req}}}); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v in a transaction: got %v", req, err)
			}
		}
		sent := 0
		ctx, leave := context.WithCancel(t.Context())
		_, err := s.RangeStream(ctx, &all, func([]*Row, bool) error {
			sent++
			leave()
			return nil
		})
		if !errors.Is(err, context.Canceled) || sent != 1 {
			t.Errorf("a stream abandoned after its first chunk: %d sent, %v", sent, err)
		}
	})
}
