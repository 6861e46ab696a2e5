package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// StreamPinLimit is how long an open stream holds off the deletion of rows that it may still read. It is far longer
// than a list takes, and bounds the cost of a client that has stopped reading.
const StreamPinLimit = 5 * time.Minute

// sharePinAfter is how long a stream may run before it asks the other replicas to hold off deletion, too. Most streams
// are done by then.
const sharePinAfter = 500 * time.Millisecond

// pins holds the revisions that open streams and exports read at. A purge deletes what was superseded at or below the
// compacted revision, but nothing superseded above the oldest pin. Lists of the current revision do not run into the
// usual compaction, which is at a revision of minutes ago.
type pins struct {
	mu   sync.Mutex
	open map[*pin]struct{}
}

// pin protects the rows that can be read at rev from deletion, until end is called or the pin is lost.
type pin struct {
	of     *pins
	rev    int64
	export bool
	until  time.Time // for a stream
	lost   bool      // guarded by of.mu

	shared *sharedPin // set where other replicas purge, too
}

// sharedPin is a pin that the other replicas learn of through the database. The database may lose it in a failover to a
// standby that had not received it. This process cannot tell, so each read asks the database for the pin, in the
// snapshot that it reads.
type sharedPin struct {
	replica *replica
	late    *time.Timer

	// Guarded by pins.mu.
	id    int64 // 0 until the database has the pin
	ended bool
}

// pin pins the requested revision and returns a view of it. The caller ends both the view's pin and its snapshot.
func (s *Store) pin(revision int64) (view, error) {
	s.pins.mu.Lock() // a later purge sees the pin, or a compacted revision that is not above it
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

func (r *replica) renewPin(ctx context.Context, id int64, d time.Duration) error {
	return r.b.Renew(ctx, id, d)
}

// shareNow asks the other replicas to hold off deletion. Until they learn of the pin, and if it comes too late, a
// compaction ends the stream.
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

// forget ends the pin in this process and returns its id in the database, 0 if the database does not have it.
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

// free ends a pin in the database in the background. The caller waits for it only while the store closes.
func (r *replica) free(id int64) {
	release := func() { r.release(id) }
	if !r.s.background.start(release) {
		release()
	}
}

// release ends a pin in the database. If that fails, the pin expires.
func (r *replica) release(id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.s.ctx), leaveTimeout) // runs even while the store closes
	defer cancel()
	if err := r.b.Release(ctx, id); err != nil {
		r.s.cfg.Logger.Debug("a pin ends when its time is up", "error", err)
	}
}

// lasts reports whether every row that p keeps is still there. If so, everything that was read before the call is
// complete. It is always false where other processes delete rows, too.
func (p *pin) lasts() bool {
	if p == nil || p.shared != nil {
		return false
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return !p.lost
}

// id returns the id under which a read relies on p in the database, 0 if the database does not know p.
func (p *pin) id() int64 {
	if p == nil || p.shared == nil {
		return 0
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.shared.id
}

// until returns the revision at or below which superseded rows may be deleted: the compacted revision, or the oldest
// pinned one if that is lower. Pins whose time is up do not count; those that lose rows by it are marked as lost.
func (s *pins) until(compacted int64, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := compacted
	for p := range s.open {
		if p.isActive(now) {
			until = min(until, p.rev)
		}
	}
	for p := range s.open {
		p.lost = p.lost || p.rev < until
	}
	return until
}

func (p *pin) isActive(now time.Time) bool { return p.export || now.Before(p.until) }

// Readers returns a description, for people, of those clients of this process that hold off the deletion of rows below
// the compacted revision; "" if there are none.
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
		case p.rev >= compacted || !p.isActive(now):
		case p.export:
			exports++
		default:
			streams++
		}
	}
	return exports, streams
}
