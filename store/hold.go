package store

import (
	"sync"
	"time"
)

// StreamHold is how long an open stream holds off the deletion of rows that it may still read. It is far longer than a list
// takes, and bounds what a client that has stopped reading costs.
const StreamHold = 5 * time.Minute

// holds are the revisions that open streams read at. A purge deletes only what is superseded at or below the compacted
// revision, so it waits only for those below that: lists of the current revision do not meet the usual compaction, which is of
// minutes ago.
type holds struct {
	mu   sync.Mutex
	open map[*hold]struct{}
}

// hold keeps the rows that can be read at rev from being deleted, until end or until it is lost.
type hold struct {
	of    *holds
	rev   int64
	until time.Time
	lost  bool // guarded by of.mu
}

// hold pins the revision asked for, see pin. End it.
func (s *Store) hold(revision int64) (h *hold, current int64, err error) {
	s.holds.mu.Lock() // a purge that begins later sees the hold, or a compacted revision that is not above it
	defer s.holds.mu.Unlock()
	rev, current, err := s.pin(revision)
	if err != nil {
		return nil, 0, err
	}
	h = &hold{of: &s.holds, rev: rev, until: s.cfg.Now().Add(StreamHold)}
	if s.holds.open == nil {
		s.holds.open = map[*hold]struct{}{}
	}
	s.holds.open[h] = struct{}{}
	return h, current, nil
}

func (h *hold) end() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.open, h)
}

// lasts says whether every row that h keeps is still there. What was read before the question is whole if so.
func (h *hold) lasts() bool {
	if h == nil {
		return false
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return !h.lost
}

// allow says whether rows superseded at or below compacted may be deleted now. Holds that are too old are lost.
func (s *holds) allow(compacted int64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.open {
		if h.rev < compacted && now.Before(h.until) {
			return false
		}
	}
	for h := range s.open {
		h.lost = h.lost || h.rev < compacted
	}
	return true
}
