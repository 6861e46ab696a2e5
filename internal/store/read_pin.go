package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// StreamPinLimit is how long an open stream holds off the deletion of rows that it may still read. It is far longer
// than a list takes, and bounds what a client that has stopped reading costs.
const StreamPinLimit = 5 * time.Minute

// sharePinAfter is how long a stream may take before the other replicas are asked to hold off, too: the most are done
// by then.
const sharePinAfter = 500 * time.Millisecond

// pins are the revisions that open streams and exports read at. A purge deletes what is superseded at or below the
// compacted revision, and not above the oldest of them: lists of the current revision do not meet the usual compaction,
// which is of minutes ago.
type pins struct {
	mu   sync.Mutex
	open map[*pin]struct{}
}

// pin keeps the rows that can be read at rev from being deleted, until end or until it is lost.
type pin struct {
	of     *pins
	rev    int64
	export bool
	until  time.Time // of a stream
	lost   bool      // guarded by of.mu

	shared *sharedPin // where other replicas purge, too
}

// sharedPin is a pin that the other replicas hear of through the database. That may lose it, in a failover to a
// standby that had not received it: so nobody here knows whether it is still there, and each read asks the database,
// in the snapshot that it reads.
type sharedPin struct {
	replica *replica
	late    *time.Timer

	// Guarded by pins.mu.
	id    int64 // 0 until the database has it
	ended bool
}

// pin pins the revision asked for and returns its view. End both that and its snapshot.
func (s *Store) pin(revision int64) (view, error) {
	s.pins.mu.Lock() // a purge that begins later sees the pin, or a compacted revision that is not above it
	defer s.pins.mu.Unlock()
	clock, snap := s.index.Pin(revision)
	v, err := newView(revision, clock)
	if err != nil {
		snap.End()
		return v, err
	}
	v.snap = snap
	p := &pin{rev: v.rev, until: s.cfg.Now().Add(StreamPinLimit)}
	s.pins.add(p)
	s.peers.share(p)
	v.pin = p
	return v, nil
}

// add opens a pin. Callers hold mu.
func (s *pins) add(p *pin) {
	if s.open == nil {
		s.open = map[*pin]struct{}{}
	}
	p.of = s
	s.open[p] = struct{}{}
}

func (r *replica) share(p *pin) {
	p.shared = &sharedPin{replica: r}
	p.shared.late = time.AfterFunc(sharePinAfter, func() { r.s.background.start(p.shareNow) })
}

func (r *replica) pinFor(ctx context.Context, rev int64, d time.Duration) (id int64, err error) {
	return r.b.Pin(ctx, rev, d)
}

// shareNow asks the other replicas to hold off. Until they have heard of it, and if it is too late, a compaction ends
// the stream.
func (p *pin) shareNow() {
	r := p.shared.replica
	id, err := r.pinFor(r.s.ctx, p.rev, StreamPinLimit)
	if err != nil {
		r.s.cfg.Logger.Debug("a long list is not protected from compaction", "revision", p.rev, "error", err)
		return
	}
	p.of.mu.Lock()
	p.shared.id = id
	ended := p.shared.ended
	p.of.mu.Unlock()
	if ended {
		r.release(id)
	}
}

func (p *pin) end() {
	if id := p.forget(); id != 0 {
		p.shared.replica.free(id)
	}
}

// forget ends the pin here, and returns the id of what the database has of it, 0 for nothing.
func (p *pin) forget() (id int64) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.open, p)
	if p.shared == nil {
		return 0
	}
	p.shared.ended = true
	p.shared.late.Stop()
	return p.shared.id
}

// free ends a pin of the database beside its caller, who waits for it only while the store closes.
func (r *replica) free(id int64) {
	release := func() { r.release(id) }
	if !r.s.background.start(release) {
		release()
	}
}

// release ends a pin of the database; one that this fails for ends by itself.
func (r *replica) release(id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.s.ctx), leaveTimeout) // also when the store closes
	defer cancel()
	if err := r.b.Release(ctx, id); err != nil {
		r.s.cfg.Logger.Debug("a pin ends when its time is up", "error", err)
	}
}

// lasts says whether every row that p keeps is still there, where this process alone deletes rows. What was read before
// the question is whole if so.
func (p *pin) lasts() bool {
	if p == nil || p.shared != nil {
		return false
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return !p.lost
}

// id is what a read names to the database to rely on p, 0 when it has not heard of it.
func (p *pin) id() int64 {
	if p == nil || p.shared == nil {
		return 0
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.shared.id
}

// until is the revision at or below which what is superseded may be deleted now: the compacted one, or the oldest that
// is pinned. Those whose time is up are lost with what they kept.
func (s *pins) until(compacted int64, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := compacted
	for p := range s.open {
		if p.keeps(now) {
			until = min(until, p.rev)
		}
	}
	for p := range s.open {
		p.lost = p.lost || p.rev < until
	}
	return until
}

func (p *pin) keeps(now time.Time) bool { return p.export || now.Before(p.until) }

// Readers describes, for people, which of this process's clients keep rows below the compacted revision from being
// deleted; "" for none.
func (s *Store) Readers() string {
	exports, streams := s.pins.older(s.Compacted(), s.cfg.Now())
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
func (s *pins) older(compacted int64, now time.Time) (exports, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.open {
		switch {
		case p.rev >= compacted || !p.keeps(now):
		case p.export:
			exports++
		default:
			streams++
		}
	}
	return exports, streams
}
