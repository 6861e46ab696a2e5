package store

import (
	"context"
	"sync"
	"time"
)

// hinting holds what the other replicas do not know yet. Hints follow the commits that they announce, one at a time,
// and each announces everything committed so far, so no commit waits for a hint. If a hint is lost, the others notice
// later, when they ask by themselves.
type hinting struct {
	mu                  sync.Mutex
	revision, compacted int64
	wake                chan struct{} // capacity 1
}

// hintTimeout bounds how long one hint holds up newer ones.
const hintTimeout = 2 * time.Second

// hint announces a commit to the others. compacted is 0 if the compacted revision has not moved.
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
