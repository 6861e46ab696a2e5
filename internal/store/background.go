package store

import "sync"

// background is the work that runs beside the calls of a store. No work starts after close was called, so close waits
// for all of it, however late a call tries to start some.
type background struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f in a goroutine and returns true, or returns false if the store is closing. Callers may hold any lock.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.wg.Go(f)
	return true
}

// close refuses further work and waits until the running work has ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wg.Wait()
}
