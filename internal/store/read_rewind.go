package store

import (
	"context"
	"sync"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// rewindMost is how many revisions a rewind undoes at most.
	rewindMost = 10_000
	// rewindFactor is how many changes a rewind may undo for each row that the read wants. The database reads a change
	// about as fast as a row, and the next read of the revision finds the snapshot.
	rewindFactor = 4
	// rewindValues bounds the values, in bytes, that a rewind reads in advance.
	rewindValues = 1 << 20
	// rewindsAtOnce leaves connections to other reads.
	rewindsAtOnce = 2
)

// rewinds are the snapshots of older revisions in the making. Most keys do not change between two revisions, so such a
// snapshot is the current rows with the few changes since undone. Reads at the revision then need no more of the
// database than the old values.
type rewinds struct {
	mu      sync.Mutex
	running map[int64]chan struct{} // by revision
	failed  int64                   // the last revision with too many changes since
}

// rewind makes a snapshot of the revision of a read of [key, end) that is about to begin, if that is worth it. The read
// does without if anything fails.
func (s *Store) rewind(ctx context.Context, req *RangeRequest) error {
	if req.Revision <= 0 || len(req.End) == 0 || backend.IsUrgent(ctx) {
		return nil
	}
	since := s.index.Since(req.Revision)
	if since <= 0 || since > rewindMost {
		return nil
	}
	wanted := s.index.Within(req.Key, req.End)
	if req.Limit > 0 && !req.CountOnly {
		wanted = min(wanted, req.Limit)
	}
	if since > rewindFactor*wanted {
		return nil
	}
	w := &s.rewinds
	w.mu.Lock()
	other, runs := w.running[req.Revision]
	if runs {
		w.mu.Unlock()
		select {
		case <-other:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(w.running) >= rewindsAtOnce || w.failed == req.Revision {
		w.mu.Unlock()
		return nil
	}
	if w.running == nil {
		w.running = map[int64]chan struct{}{}
	}
	done := make(chan struct{})
	w.running[req.Revision] = done
	w.mu.Unlock()
	made := s.rewindTo(ctx, req.Revision)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, req.Revision)
	close(done)
	if !made && ctx.Err() == nil {
		w.failed = req.Revision
	}
	return nil
}

// rewindTo makes the snapshot. It reports whether another attempt could be worth it.
func (s *Store) rewindTo(ctx context.Context, revision int64) bool {
	r, at := s.index.NewRewind(revision)
	if r == nil {
		return true
	}
	h, err := s.backend.History(ctx, backend.HistoryQuery{
		After: revision, Until: at.Revision, Limit: rewindMost, KeysOnly: true, WithPrev: true,
	})
	if err != nil || h.Through < at.Revision || h.Clock.Epoch != at.Epoch || h.Clock.Check(revision) != nil {
		return false
	}
	for i := range h.Changes {
		if !r.Undo(&h.Changes[i]) {
			return false
		}
	}
	if ids := r.Old(); len(ids) > 0 {
		rows, clock, err := s.fetcher.read(ctx, ids, rewindValues)
		if err != nil || clock.Epoch != at.Epoch || !r.Values(rows) {
			return false
		}
	}
	s.index.Add(r)
	return true
}
