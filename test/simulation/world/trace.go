package world

import (
	"sync"
	"time"
)

// trace hashes what happens in a run and when, in order. Two runs with the same hash did the same.
type trace struct {
	began time.Time

	mu    sync.Mutex
	hash  uint64
	steps uint64
}

// note records a step.
func (t *trace) note(what string, a, b uint64) {
	at := uint64(time.Since(t.began))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	t.hash = mix(scramble(t.hash^a)^b, what, at)
}
