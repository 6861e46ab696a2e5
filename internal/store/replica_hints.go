package store

import (
	"context"
	"sync"
	"time"
)

// hinting is what the other replicas do not know yet. Hints are sent behind the commits that they announce, one
// at a time, each with all that was committed meanwhile: no commit waits for one. A lost hint costs the others the time
// until they ask by themselves.
type hinting struct {
	mu                  sync.Mutex
	revision, compacted int64
	wake                chan struct{} // capacity 1
}

// hintTimeout bounds how long newer hints wait for one.
const hintTimeout = 2 * time.Second

// hint announces a commit to the others; compacted is 0 if that has not moved.
func (r *replica) hint(revision, compacted int64) {
	h := &r.hinting
	h.mu.Lock()
	h.revision = revision
	if compacted != 0 {
		h.compacted = compacted
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// sendHints sends hints until the store closes.
func (r *replica) sendHints() {
	h := &r.hinting
	for {
		select {
		case <-r.s.ctx.Done():
			return
		case <-h.wake:
		}
		h.mu.Lock()
		revision, compacted := h.revision, h.compacted
		h.compacted = 0
		h.mu.Unlock()
		if r.onlyMember() {
			continue
		}
		ctx, cancel := context.WithTimeout(r.s.ctx, hintTimeout)
		if err := r.b.Hint(ctx, revision, compacted); err != nil && r.s.ctx.Err() == nil {
			r.s.cfg.Logger.Debug("a hint for the other replicas is lost", "error", err)
		}
		cancel()
	}
}
