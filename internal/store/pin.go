package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// StreamHold is how long an open stream holds off the deletion of rows that it may still read. It is far longer than a
// list takes, and bounds what a client that has stopped reading costs.
const StreamHold = 5 * time.Minute

// holdLate is how long a stream may take before the other replicas are asked to hold off, too: the most are done by
// then.
const holdLate = 500 * time.Millisecond

// holds are the revisions that open streams and exports read at. A purge deletes what is superseded at or below the
// compacted revision, and not above the oldest of them: lists of the current revision do not meet the usual compaction,
// which is of minutes ago.
type holds struct {
	mu   sync.Mutex
	open map[*hold]struct{}
}

// hold keeps the rows that can be read at rev from being deleted, until end or until it is lost.
type hold struct {
	of     *holds
	rev    int64
	export bool
	until  time.Time // of a stream
	lost   bool      // guarded by of.mu

	shared *sharedHold // where other replicas purge, too
}

// sharedHold is a hold that the other replicas hear of through the database. That may lose it, in a failover to a
// standby that had not received it: so nobody here knows whether it still holds, and each read has the database tell,
// from the snapshot that it reads.
type sharedHold struct {
	replica *replica
	late    *time.Timer

	// Guarded by holds.mu.
	id    int64 // 0 until the database has it
	ended bool
}

// hold pins the revision asked for, see pin, with a hold on it. End both that and its snapshot.
func (s *Store) hold(revision int64) (view, error) {
	s.holds.mu.Lock() // a purge that begins later sees the hold, or a compacted revision that is not above it
	defer s.holds.mu.Unlock()
	clock, snap := s.index.hold(revision)
	v, err := pinned(revision, clock)
	if err != nil {
		snap.end()
		return v, err
	}
	v.snap = snap
	h := &hold{rev: v.rev, until: s.cfg.Now().Add(StreamHold)}
	s.holds.add(h)
	if s.replica != nil {
		h.shared = &sharedHold{replica: s.replica}
		h.shared.late = time.AfterFunc(holdLate, func() { s.background.start(h.share) })
	}
	v.hold = h
	return v, nil
}

// add opens a hold. Callers hold mu.
func (s *holds) add(h *hold) {
	if s.open == nil {
		s.open = map[*hold]struct{}{}
	}
	h.of = s
	s.open[h] = struct{}{}
}

// share asks the other replicas to hold off. Until they have heard of it, and if it is too late, a compaction ends the
// stream.
func (h *hold) share() {
	r := h.shared.replica
	id, err := r.b.Hold(r.s.ctx, h.rev, StreamHold)
	if err != nil {
		r.s.cfg.Logger.Debug("a long list is not protected from compaction", "revision", h.rev, "error", err)
		return
	}
	h.of.mu.Lock()
	h.shared.id = id
	ended := h.shared.ended
	h.of.mu.Unlock()
	if ended {
		r.release(id)
	}
}

func (h *hold) end() {
	if id := h.forget(); id != 0 {
		h.shared.replica.free(id)
	}
}

// forget ends the hold here, and returns the id of what the database has of it, 0 for nothing.
func (h *hold) forget() (id int64) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.open, h)
	if h.shared == nil {
		return 0
	}
	h.shared.ended = true
	h.shared.late.Stop()
	return h.shared.id
}

// free ends a hold of the database beside its caller, who waits for it only while the store closes.
func (r *replica) free(id int64) {
	release := func() { r.release(id) }
	if !r.s.background.start(release) {
		release()
	}
}

// release ends a hold of the database; one that this fails for ends by itself.
func (r *replica) release(id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.s.ctx), leaveTimeout) // also when the store closes
	defer cancel()
	if err := r.b.Release(ctx, id); err != nil {
		r.s.cfg.Logger.Debug("a hold ends when its time is up", "error", err)
	}
}

// lasts says whether every row that h keeps is still there, where this process alone deletes rows. What was read before
// the question is whole if so.
func (h *hold) lasts() bool {
	if h == nil || h.shared != nil {
		return false
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return !h.lost
}

// id is what a read names to the database to rely on h, 0 when it has not heard of it.
func (h *hold) id() int64 {
	if h == nil || h.shared == nil {
		return 0
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.shared.id
}

// until is the revision at or below which what is superseded may be deleted now: the compacted one, or the oldest that
// is held. Those whose time is up are lost with what they kept.
func (s *holds) until(compacted int64, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := compacted
	for h := range s.open {
		if h.keeps(now) {
			until = min(until, h.rev)
		}
	}
	for h := range s.open {
		h.lost = h.lost || h.rev < until
	}
	return until
}

func (h *hold) keeps(now time.Time) bool { return h.export || now.Before(h.until) }

// Readers tells for people who, of this process's clients, keeps rows below the compacted revision from being deleted;
// "" for nobody.
func (s *Store) Readers() string {
	exports, streams := s.holds.older(s.Compacted(), s.cfg.Now())
	var who []string
	if exports > 0 {
		who = append(who, fmt.Sprintf("%d snapshots or hashes being made", exports))
	}
	if streams > 0 {
		who = append(who, fmt.Sprintf("%d lists being read", streams))
	}
	return strings.Join(who, " and ")
}

// older counts the exports and the streams that keep rows superseded at or below compacted.
func (s *holds) older(compacted int64, now time.Time) (exports, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.open {
		switch {
		case h.rev >= compacted || !h.keeps(now):
		case h.export:
			exports++
		default:
			streams++
		}
	}
	return exports, streams
}
