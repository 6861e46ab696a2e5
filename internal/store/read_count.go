package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// counts remembers counts that the database made, and how many keys a limited list left unread, so that the same count
// and the next page of such a list need not ask again: within one epoch, the number of keys in a span at a revision
// never changes. Whether the revision is compacted is checked before.
type counts struct {
	mu      sync.Mutex
	known   map[countKey]int64
	order   []countKey // oldest first
	bytes   int64      // of order
	running map[countKey]chan struct{}
}

type countKey struct {
	epoch      int64 // to which rev belongs
	rev        int64
	start, end string
	open       bool
}

const (
	countsMax = 1024
	// countsBytes bounds the keys that counts holds.
	countsBytes = 1 << 20
)

func (k countKey) size() int64 { return int64(len(k.start) + len(k.end)) }

func (c *counts) put(k countKey, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[k]; ok || k.size() > countsBytes {
		return
	}
	for len(c.order) == countsMax || c.bytes+k.size() > countsBytes {
		delete(c.known, c.order[0])
		c.bytes -= c.order[0].size()
		c.order = append(c.order[:0], c.order[1:]...)
	}
	if c.known == nil {
		c.known = map[countKey]int64{}
	}
	c.known[k] = n
	c.order = append(c.order, k)
	c.bytes += k.size()
}

// find returns the count of k. It waits while another caller finds it. If that caller fails, the next one tries.
func (c *counts) find(ctx context.Context, k countKey, ask func() (int64, error)) (int64, error) {
	for {
		c.mu.Lock()
		n, ok := c.known[k]
		other, runs := c.running[k]
		if ok {
			c.mu.Unlock()
			return n, nil
		}
		if !runs {
			if c.running == nil {
				c.running = map[countKey]chan struct{}{}
			}
			done := make(chan struct{})
			c.running[k] = done
			c.mu.Unlock()
			return c.ask(k, done, ask)
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (c *counts) ask(k countKey, done chan struct{}, ask func() (int64, error)) (int64, error) {
	defer func() {
		c.mu.Lock()
		delete(c.running, k)
		c.mu.Unlock()
		close(done)
	}()
	n, err := ask()
	if err == nil {
		c.put(k, n)
	}
	return n, err
}

func (v view) countKey(sp index.Span) countKey {
	return countKey{epoch: v.epoch, rev: v.rev, start: sp.Start, end: sp.End, open: sp.Open}
}

// count returns the number of keys in the span at v's revision.
func (s *Store) count(ctx context.Context, sp index.Span, v view) (int64, error) {
	if n, ok := s.countInMemory(sp, v); ok {
		return n, nil
	}
	k := v.countKey(sp)
	ask := func() (int64, error) {
		n, clock, err := s.backend.Count(ctx, backend.RangeQuery{Span: sp.Backend(), Revision: v.rev, Pin: v.pin.id()})
		if err == nil {
			err = v.check(clock)
			s.olderCounts.read(v, int(n))
		}
		if err != nil {
			return 0, fmt.Errorf("count at revision %d: %w", v.rev, err)
		}
		return n, nil
	}
	if k.size() > countsBytes || backend.IsUrgent(ctx) { // it cannot be remembered, or must not wait for others
		return ask()
	}
	return s.counts.find(ctx, k, ask)
}

// count returns the number of live keys in [key, end) as the transaction sees them.
func (e *evaluator) count(key, end []byte) (int64, error) {
	sp := index.NewSpan(key, end)
	if sp.Empty {
		return 0, nil
	}
	n, err := e.committed(sp)
	if err != nil {
		return 0, err
	}
	d := e.difference()
	return n + d.added.Count(sp) - d.removed.Count(sp), nil
}

// committed counts the keys of the span as they were before the batch. While the index is incomplete, the database
// counts: the rows may be many and large, and need not be loaded for that.
func (e *evaluator) committed(sp index.Span) (int64, error) {
	if e.whole {
		return e.loaded.Count(sp), nil
	}
	if e.loaded != nil {
		return e.s.count(e.ctx, sp, view{rev: e.from, current: e.from, epoch: e.epoch})
	}
	return e.s.index.Count(sp), nil
}

// countPage counts a span after one of its pages was read, and remembers the count of the rest.
func (s *Store) countPage(ctx context.Context, sp index.Span, v view, next index.Span, read int64) (int64, error) {
	if n, ok := s.countInMemory(sp, v); ok {
		return n, nil
	}
	n, err := s.count(ctx, sp, v)
	if err == nil {
		s.counts.put(v.countKey(next), n-read)
	}
	return n, err
}
