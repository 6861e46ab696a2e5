package store

import "sync"

// background is the work that goes on beside the calls of a store. None begins once close was called, so close waits
// for all of it, however late a call comes that would begin some.
type background struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start has f run unless the store closes, and says whether it does. Callers may hold any lock.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.wg.Go(f)
	return true
}

// close lets nothing more begin, and waits until what has begun has ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wg.Wait()
}
