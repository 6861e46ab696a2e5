package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

var _ backend.Shared = (*lagging)(nil)

// lagging is a backend that reports a single revision with the clock and sends no hints, so that batches begin before
// everything is published. While its gate is closed, only Begin shows what others wrote.
type lagging struct {
	backend.Shared
	mu   sync.Mutex
	gate chan struct{} // nil when open
}

func (b *lagging) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	if n.Tail != nil {
		tail := *n.Tail
		tail.Limit, tail.Bytes = 1, 1
		n.Tail = &tail
	}
	return b.Shared.Begin(ctx, n)
}

func (b *lagging) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	b.mu.Lock()
	gate := b.gate
	b.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return backend.Tail{}, ctx.Err()
		}
	}
	return b.Shared.Tail(ctx, q)
}

func (b *lagging) Listen(ctx context.Context, _ func(revision, compacted int64), state func(bool)) {
	state(false)
	<-ctx.Done()
}

// shut closes the gate and returns a function that opens it again.
func (b *lagging) shut() (open func()) {
	gate := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate = gate
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(gate)
		b.gate = nil
	})
}

// TestBatchBeforeAllIsPublished has a replica write before it publishes what another replica wrote. It evaluates its
// batch on what is committed, and publishes everything in order.
func TestBatchBeforeAllIsPublished(t *testing.T) {
	both := openSharedOn(t, 2, pgserver.Database(t))
	back := &lagging{Shared: both[1].(backend.Shared)}
	a, b := openStore(t, both[0], Config{}), openStore(t, back, Config{})
	grant(t, a, 7, 100, "l1")
	for i, k := range []string{"a", "b", "c"} {
		put(t, a, k, fmt.Sprint(i))
	}
	eventually(t, "the index is complete", func() bool { return complete(b) && b.Revision() == a.Revision() })
	st := watchAll(t, b, 2)

	// behind runs write on a, then f on b, which has not published the write yet. committed reports, on a, whether f is
	// committed.
	behind := func(write func(), f func() error, committed func() bool) {
		t.Helper()
		open := back.shut()
		defer open()
		write()
		done := make(chan error, 1)
		go func() { done <- f() }()
		eventually(t, "the batch is committed", committed)
		if at := b.Revision(); at >= a.Revision() {
			t.Fatalf("b has already published revision %d", at)
		}
		open()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if b.Revision() < a.Revision() {
			t.Errorf("after the answer b is at revision %d, a at %d", b.Revision(), a.Revision())
		}
	}

	var res *TxnResult
	behind(func() {
		put(t, a, "x", "")
		put(t, a, "a", "10")
		if _, err := a.Delete(within(t), &DeleteRequest{Key: []byte("b")}); err != nil {
			t.Fatal(err)
		}
		put(t, a, "d", "4")
	}, func() (err error) {
		res, err = b.Txn(within(t), &Txn{
			Compare: []Compare{
				{Key: []byte("a"), Target: CompareValue, Result: CompareEqual, Value: []byte("10")},
				{Key: []byte("b"), Target: CompareCreate, Result: CompareEqual},
			},
			Success: []Op{
				{Range: &RangeRequest{Key: []byte("a"), End: []byte("e")}},
				{Range: &RangeRequest{Key: []byte("a"), End: []byte("e"), CountOnly: true}},
				{Range: &RangeRequest{Key: []byte("b"), End: []byte("e"), Limit: 1}},
				{Delete: &DeleteRequest{Key: []byte("c"), End: []byte("e")}},
				{Put: &PutRequest{Key: []byte("a"), Value: []byte("11"), PrevKV: true}},
			},
		})
		return err
	}, func() bool { return get(t, a, "c", 0) == nil })
	if !res.Succeeded {
		t.Fatal("the comparison saw other values")
	}
	list, count, page := res.Results[0].Range, res.Results[1].Range, res.Results[2].Range
	if len(list.Rows) != 3 || string(list.Rows[0].Value) != "10" || string(list.Rows[2].Value) != "4" ||
		count.Count != 3 {
		t.Errorf("listed %+v, counted %d", list, count.Count)
	}
	if len(page.Rows) != 1 || string(page.Rows[0].Key) != "c" || !page.More || page.Count != 2 {
		t.Errorf("page %+v", page)
	}
	if n := res.Results[3].Delete.Deleted; n != 2 {
		t.Errorf("deleted %d", n)
	}
	if prev := res.Results[4].Put.Prev; prev == nil || string(prev.Value) != "10" {
		t.Errorf("put replaced %+v", prev)
	}

	// A read of a revision that is not published yet.
	put(t, a, "x", "")
	at := put(t, a, "a", "12")
	put(t, a, "a", "13")
	res, err := b.Txn(within(t),
		&Txn{Success: []Op{
			{Put: &PutRequest{Key: []byte("y")}},
			{Range: &RangeRequest{Key: []byte("a"), Revision: at}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	if old := res.Results[1].Range; len(old.Rows) != 1 || string(old.Rows[0].Value) != "12" {
		t.Errorf("read of the unpublished revision: %+v", old)
	}

	behind(func() {
		put(t, a, "x", "")
		for _, k := range []string{"l2", "l3"} {
			if _, err := a.Put(within(t), &PutRequest{Key: []byte(k), Lease: 7}); err != nil {
				t.Fatal(err)
			}
		}
	}, func() error { _, err := b.LeaseRevoke(within(t), 7); return err },
		func() bool { return get(t, a, "l3", 0) == nil })
	for _, s := range []*Store{a, b} {
		if res, err := s.Range(within(t), &RangeRequest{Key: []byte("l"), End: []byte("m")}); err != nil ||
			res.Count != 0 {
			t.Errorf("the lease still has %d keys, %v", res.Count, err)
		}
	}

	var again error
	stats, _ := b.ReplicaStats()
	behind(func() {
		put(t, a, "x", "")
		put(t, a, "y", "")
		if _, err := a.Compact(within(t), a.Revision(), false); err != nil {
			t.Fatal(err)
		}
	}, func() error {
		_, again = b.Compact(within(t), a.Compacted(), false)
		return nil
	}, func() bool {
		now, _ := b.ReplicaStats()
		return now.Ahead > stats.Ahead
	})
	if !errors.Is(again, ErrCompacted) {
		t.Errorf("compaction of a compacted revision: %v", again)
	}

	last, values := int64(1), map[string]string{}
	for last < b.Revision() {
		for _, e := range next(t, st).Events {
			if r := e.Row.ModRevision; r != last && r != last+1 {
				t.Fatalf("revision %d follows %d", r, last)
			}
			last = e.Row.ModRevision
			key := string(e.Row.Key)
			if was, ok := values[key]; ok != (e.Prev != nil) || ok && string(e.Prev.Value) != was {
				t.Errorf("%s, want previous value %q", eventText(e), was)
			}
			if values[key] = string(e.Row.Value); e.Row.Deleted {
				delete(values, key)
			}
		}
	}
	if stats, _ := b.ReplicaStats(); stats.Again > 0 {
		t.Errorf("%d batches took the clock again", stats.Again)
	}
}

// silent is a lagging backend that fails to report what others wrote while it is mute.
type silent struct {
	lagging
	mute atomic.Bool
}

func (b *silent) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	if b.mute.Load() {
		return backend.Tail{}, fmt.Errorf("%w: mute", backend.ErrUnavailable)
	}
	return b.lagging.Tail(ctx, q)
}

// A batch without rows skips no earlier write of others, even if the replica cannot read those writes at the time.
func TestBatchWithoutRowsPassesOverNothing(t *testing.T) {
	both := openSharedOn(t, 2, pgserver.Database(t))
	back := &silent{lagging: lagging{Shared: both[1].(backend.Shared)}}
	a, b := openStore(t, both[0], Config{}), openStore(t, back, Config{})
	put(t, a, "first", "")
	eventually(t, "the index is complete", func() bool { return complete(b) && b.Revision() == a.Revision() })
	st := watchAll(t, b, 2)
	back.mute.Store(true)
	for i := range 5 {
		put(t, a, fmt.Sprint(i), "")
	}
	if _, err := b.LeaseGrant(within(t), 7, 100); err != nil {
		t.Fatal(err)
	}
	back.mute.Store(false)
	last := put(t, a, "last", "")
	expectRevisions(t, st, 2, last, 1)
	for i := range 5 {
		if get(t, b, fmt.Sprint(i), 0) == nil {
			t.Errorf("key %d is missing", i)
		}
	}
}
