package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// counts remembers how many keys a limited list left unread. The next page of a list read from the database then need
// not count again: within one history, the number of keys from a start key to the end of a span at a revision never
// changes.
type counts struct {
	mu    sync.Mutex
	known map[countKey]int64
	order []countKey // oldest first
}

type countKey struct {
	epoch      int64 // to which rev belongs
	rev        int64
	start, end string
	open       bool
}

const countsMax = 1024

func (c *counts) get(k countKey) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.known[k]
	return n, ok
}

func (c *counts) put(k countKey, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[countKey]int64{}
	}
	if _, ok := c.known[k]; !ok {
		if len(c.order) == countsMax {
			delete(c.known, c.order[0])
			c.order = append(c.order[:0], c.order[1:]...)
		}
		c.order = append(c.order, k)
	}
	c.known[k] = n
}

func (v view) countKey(sp index.Span) countKey {
	return countKey{epoch: v.epoch, rev: v.rev, start: sp.Start, end: sp.End, open: sp.Open}
}

// count returns the number of keys in the span at v's revision.
func (s *Store) count(ctx context.Context, sp index.Span, v view) (int64, error) {
	if keys := v.keys(); keys != nil {
		return keys.Count(sp), nil
	}
	if n, ok := s.counts.get(v.countKey(sp)); ok {
		return n, nil
	}
	n, clock, err := s.backend.Count(ctx, backend.RangeQuery{Span: sp.Backend(), Revision: v.rev, Pin: v.pin.id()})
	if err == nil {
		err = v.check(clock)
	}
	if err != nil {
		return 0, fmt.Errorf("count at revision %d: %w", v.rev, err)
	}
	return n, nil
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
	n, err := s.count(ctx, sp, v)
	if err == nil && v.keys() == nil {
		s.counts.put(v.countKey(next), n-read)
	}
	return n, err
}
