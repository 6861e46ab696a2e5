package store

import (
	"context"
	"sync"
	"time"
)

// gatherer answers many callers with few statements. One statement runs at a time. The keys that callers ask for in the
// meantime gather in groups, which wait in the queue. So every answer comes from a statement that started after the
// call.
type gatherer[K comparable, V any] struct {
	background *background
	limit      int // keys per statement, and the weights of its callers in total, unless one alone has more
	// patience is how long the queue waits for a statement before the next one runs beside it; 0 means until its end.
	// At most overtaken statements are overtaken at a time, so that a database that hangs does not take all
	// connections.
	patience  time.Duration
	overtaken int
	// ask runs a statement. It returns the answers to all keys, in the order of the keys.
	ask func(keys []K) ([]V, error)

	mu     sync.Mutex
	busy   bool                  // a statement runs that was not overtaken
	slow   int                   // overtaken statements that run
	queue  []*group[K, V]        // further keys join the last group only
	queued map[K]*gathered[K, V] // the keys of the groups in the queue, each as it was queued last
}

// group is the keys of one statement. Their values and err are valid once done is closed.
type group[K comparable, V any] struct {
	keys    []*gathered[K, V]
	weight  int // of the callers
	running bool
	done    chan struct{}
	err     error
}

// gathered is a key that callers ask for.
type gathered[K comparable, V any] struct {
	key     K
	value   V
	group   *group[K, V]
	at      int // in the group's keys
	callers int // callers that still wait, while in the queue
}

// together returns a gatherer for a single question, so that all callers that wait share one answer.
func together[V any](b *background, ask func() (V, error)) *gatherer[struct{}, V] {
	return &gatherer[struct{}, V]{background: b, limit: 1, ask: func([]struct{}) ([]V, error) {
		value, err := ask()
		return []V{value}, err
	}}
}

// get returns the answer to key of a statement that starts after the call. The weight of the caller limits with how
// many others it shares one. Errors: ctx's, [ErrClosed], those of the statement.
func (g *gatherer[K, V]) get(ctx context.Context, key K, weight int) (value V, err error) {
	k, err := g.enqueue(key, weight)
	if err != nil {
		return value, err
	}
	select {
	case <-k.group.done:
		return k.value, k.group.err
	case <-ctx.Done():
		g.abandon(k, weight)
		return value, ctx.Err()
	}
}

// getAll returns the answers to several keys. One statement gives them all, unless the keys exceed the limit. Callers
// have no weight. Errors: ctx's, [ErrClosed], those of a statement.
func (g *gatherer[K, V]) getAll(ctx context.Context, keys []K) ([]V, error) {
	all, err := g.enqueueAll(keys)
	if err != nil {
		return nil, err
	}
	values := make([]V, len(keys))
	for i, k := range all {
		select {
		case <-k.group.done:
			if k.group.err != nil {
				return nil, k.group.err
			}
			values[i] = k.value
		case <-ctx.Done():
			for _, k := range all[i:] {
				g.abandon(k, 0)
			}
			return nil, ctx.Err()
		}
	}
	return values, nil
}

// statement is a statement in progress, which the next one overtakes when it takes too long.
type statement[K comparable, V any] struct {
	g         *gatherer[K, V]
	timer     *time.Timer // nil if it is never overtaken
	over      bool
	overtaken bool
}

// begin returns nil if a statement runs. Otherwise, the caller may run one itself, and must call end after it.
func (g *gatherer[K, V]) begin() *statement[K, V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return nil
	}
	g.busy = true
	return g.started()
}

// started returns a statement that starts now. Callers hold mu.
func (g *gatherer[K, V]) started() *statement[K, V] {
	st := &statement[K, V]{g: g}
	if g.patience > 0 {
		st.timer = time.AfterFunc(g.patience, st.overtake)
	}
	return st
}

// overtake lets the next statement run beside this one, or tries again later if too many are overtaken already.
func (st *statement[K, V]) overtake() {
	g := st.g
	g.mu.Lock()
	if st.over {
		g.mu.Unlock()
		return
	}
	if g.slow >= g.overtaken {
		st.timer.Reset(g.patience)
		g.mu.Unlock()
		return
	}
	st.overtaken = true
	g.slow++
	g.mu.Unlock()
	g.proceed()
}

// ended takes note of the end of a statement, and reports whether the queue still waits for the caller.
func (st *statement[K, V]) ended() bool {
	st.g.mu.Lock()
	defer st.g.mu.Unlock()
	st.over = true
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.overtaken {
		st.g.slow--
	}
	return !st.overtaken
}

// end ends a statement and starts those for the keys that have gathered in the meantime.
func (st *statement[K, V]) end() {
	if st.ended() {
		st.g.proceed()
	}
}

// proceed starts the statements for the keys in the queue.
func (g *gatherer[K, V]) proceed() {
	g.mu.Lock()
	g.busy = len(g.queue) > 0
	waits := g.busy
	g.mu.Unlock()
	if !waits || g.background.start(g.run) {
		return
	}
	for next, st := g.next(); next != nil; next, st = g.next() {
		st.ended()
		next.err = ErrClosed
		close(next.done)
	}
}

// enqueue adds a caller to a group in the queue.
func (g *gatherer[K, V]) enqueue(key K, weight int) (*gathered[K, V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.work(); err != nil {
		return nil, err
	}
	return g.join(key, weight), nil
}

// enqueueAll is enqueue for several keys. No statement starts before the last one is in the queue.
func (g *gatherer[K, V]) enqueueAll(keys []K) ([]*gathered[K, V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.work(); err != nil {
		return nil, err
	}
	all := make([]*gathered[K, V], len(keys))
	for i, key := range keys {
		all[i] = g.join(key, 0)
	}
	return all, nil
}

// work starts the statements for the queue unless they run. Callers hold mu, and add to the queue before they release
// it. Errors: [ErrClosed].
func (g *gatherer[K, V]) work() error {
	if !g.busy {
		if g.busy = g.background.start(g.run); !g.busy {
			return ErrClosed
		}
	}
	return nil
}

// join adds a caller to a group. Callers hold mu.
func (g *gatherer[K, V]) join(key K, weight int) *gathered[K, V] {
	k := g.queued[key]
	if k == nil || !k.group.accepts(0, weight, g.limit) {
		if n := len(g.queue); n == 0 || !g.queue[n-1].accepts(1, weight, g.limit) {
			g.queue = append(g.queue, &group[K, V]{done: make(chan struct{})})
		}
		last := g.queue[len(g.queue)-1]
		k = &gathered[K, V]{key: key, group: last, at: len(last.keys)}
		last.keys = append(last.keys, k)
		if g.queued == nil {
			g.queued = map[K]*gathered[K, V]{}
		}
		g.queued[key] = k
	}
	k.group.weight += weight
	k.callers++
	return k
}

// accepts reports whether a caller may join who adds so many keys.
func (p *group[K, V]) accepts(keys, weight, limit int) bool {
	return len(p.keys) == 0 || len(p.keys)+keys <= limit && p.weight+weight <= limit
}

// forget removes a key that further callers must not join. Callers hold mu.
func (g *gatherer[K, V]) forget(k *gathered[K, V]) {
	if g.queued[k.key] == k {
		delete(g.queued, k.key)
	}
}

// abandon removes a caller from its group, unless the group's statement has started.
func (g *gatherer[K, V]) abandon(k *gathered[K, V], weight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.group.running {
		return
	}
	k.group.weight -= weight
	if k.callers--; k.callers > 0 {
		return
	}
	g.forget(k)
	keys := k.group.keys
	last := len(keys) - 1
	keys[k.at] = keys[last]
	keys[k.at].at = k.at
	keys[last] = nil
	k.group.keys = keys[:last]
}

// next removes the first group from the queue and returns it with the statement that now starts for it, nil if nobody
// waits.
func (g *gatherer[K, V]) next() (*group[K, V], *statement[K, V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) > 0 {
		first := g.queue[0]
		g.queue[0] = nil
		g.queue = g.queue[1:]
		first.running = true
		for _, k := range first.keys {
			g.forget(k)
		}
		if len(first.keys) > 0 {
			return first, g.started()
		}
	}
	g.busy = false
	return nil, nil
}

func (g *gatherer[K, V]) run() {
	for next, st := g.next(); next != nil; next, st = g.next() {
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
		if !st.ended() {
			return // another goroutine runs the statements in the queue
		}
	}
}
