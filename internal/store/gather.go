package store

import (
	"context"
	"sync"
)

// gatherer answers many callers with few statements. One statement runs at a time. The keys that callers ask for in the
// meantime gather in groups, which wait in line. So every answer comes from a statement that started after the call.
type gatherer[K comparable, V any] struct {
	background *background
	limit      int // keys per statement
	// ask runs a statement. It returns the answers to all keys, in the order of the keys.
	ask func(keys []K) ([]V, error)

	mu     sync.Mutex
	busy   bool                  // a statement runs
	line   []*group[K, V]        // further keys join the last group only
	inLine map[K]*gathered[K, V] // the keys of the groups in line
}

// group is the keys of one statement. Their values and err are valid once done is closed.
type group[K comparable, V any] struct {
	keys []*gathered[K, V]
	done chan struct{}
	err  error
}

// gathered is a key that callers ask for.
type gathered[K comparable, V any] struct {
	key     K
	value   V
	group   *group[K, V]
	at      int // in the group's keys
	callers int // callers that still wait, while in line
}

// together returns a gatherer for a single question, so that all callers that wait share one answer.
func together[V any](b *background, ask func() (V, error)) *gatherer[struct{}, V] {
	return &gatherer[struct{}, V]{background: b, limit: 1, ask: func([]struct{}) ([]V, error) {
		value, err := ask()
		return []V{value}, err
	}}
}

// get returns the answer to key of a statement that starts after the call. Errors: ctx's, [ErrClosed], those of the
// statement.
func (g *gatherer[K, V]) get(ctx context.Context, key K) (value V, err error) {
	k, err := g.join(key)
	if err != nil {
		return value, err
	}
	select {
	case <-k.group.done:
		return k.value, k.group.err
	case <-ctx.Done():
		g.leave(k)
		return value, ctx.Err()
	}
}

// begin reports whether no statement runs. If so, the caller may run one itself, and must call end after it.
func (g *gatherer[K, V]) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return false
	}
	g.busy = true
	return true
}

// end starts the statements for the keys that have gathered in the meantime.
func (g *gatherer[K, V]) end() {
	g.mu.Lock()
	g.busy = len(g.line) > 0
	waits := g.busy
	g.mu.Unlock()
	if !waits || g.background.start(g.run) {
		return
	}
	for next := g.next(); next != nil; next = g.next() {
		next.err = ErrClosed
		close(next.done)
	}
}

// join adds a caller to a group in line.
func (g *gatherer[K, V]) join(key K) (*gathered[K, V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.busy {
		if g.busy = g.background.start(g.run); !g.busy {
			return nil, ErrClosed
		}
	}
	k := g.inLine[key]
	if k == nil {
		if n := len(g.line); n == 0 || len(g.line[n-1].keys) >= g.limit {
			g.line = append(g.line, &group[K, V]{done: make(chan struct{})})
		}
		last := g.line[len(g.line)-1]
		k = &gathered[K, V]{key: key, group: last, at: len(last.keys)}
		last.keys = append(last.keys, k)
		if g.inLine == nil {
			g.inLine = map[K]*gathered[K, V]{}
		}
		g.inLine[key] = k
	}
	k.callers++
	return k, nil
}

// leave removes a caller from its group, unless the group's statement has started.
func (g *gatherer[K, V]) leave(k *gathered[K, V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inLine[k.key] != k {
		return
	}
	if k.callers--; k.callers > 0 {
		return
	}
	delete(g.inLine, k.key)
	keys := k.group.keys
	last := len(keys) - 1
	keys[k.at] = keys[last]
	keys[k.at].at = k.at
	keys[last] = nil
	k.group.keys = keys[:last]
}

// next removes the first group from the line and returns it, nil if nobody waits.
func (g *gatherer[K, V]) next() *group[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.line) > 0 {
		first := g.line[0]
		g.line[0] = nil
		g.line = g.line[1:]
		for _, k := range first.keys {
			delete(g.inLine, k.key)
		}
		if len(first.keys) > 0 {
			return first
		}
	}
	g.busy = false
	return nil
}

func (g *gatherer[K, V]) run() {
	for next := g.next(); next != nil; next = g.next() {
		keys := make([]K, len(next.keys))
		for i, k := range next.keys {
			keys[i] = k.key
		}
		var values []V
		if values, next.err = g.ask(keys); next.err == nil {
			for i, k := range next.keys {
				k.value = values[i]
			}
		}
		close(next.done)
	}
}
