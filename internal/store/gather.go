package store

import (
	"context"
	"sync"
)

// gatherer answers many callers by few statements. One runs at a time; the keys that callers ask for meanwhile gather
// in groups, which wait in line. So an answer is never older than the call.
type gatherer[K comparable, V any] struct {
	background *background
	limit      int // keys of one statement
	// ask runs a statement. It returns the answers to all keys, in their order.
	ask func(keys []K) ([]V, error)

	mu     sync.Mutex
	busy   bool                  // a statement runs
	line   []*group[K, V]        // only the last may be joined by further keys
	inLine map[K]*gathered[K, V] // what the groups in line have
}

// group is what one statement is for: its values and err count once done is closed.
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
	callers int // in line, those who have gone are not counted
}

// together returns a gatherer for one question, which all who wait for the answer have in common: they share the
// answer, too.
func together[V any](b *background, ask func() (V, error)) *gatherer[struct{}, V] {
	return &gatherer[struct{}, V]{background: b, limit: 1, ask: func([]struct{}) ([]V, error) {
		value, err := ask()
		return []V{value}, err
	}}
}

// get returns the answer to key of a statement that begins after the call. Errors: ctx's, [ErrClosed], those of the
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

// begin says whether no statement runs; then the caller may run one of its own, and calls end behind it.
func (g *gatherer[K, V]) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return false
	}
	g.busy = true
	return true
}

// end starts the statement for what has gathered meanwhile.
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

// join puts a caller into a group in line.
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

// leave takes a caller out of a group, unless its turn has come.
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

// next takes the first group out of the line, nil when nobody waits.
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
