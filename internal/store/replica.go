package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// replica keeps a store in step with a database that other processes write to.
//
// Whoever reads the tail hands it to adopt, which publishes what is not published yet: the sequencer for each batch, in
// the round trip in which it takes the clock; and run, when a hint says that somebody has committed, when a read has to
// be linearizable, and now and then in case a hint was lost. What keeps the invariants:
//
//   - Revisions are published without a gap, each once and whole: adopt and publish hold mu, and publish only what
//     lies above the revision published last. A revision that is missing below others is not passed over: the store is
//     reset.
//   - A tail says which batch wrote the last revision that we hold. If that is another than the one we know, or the
//     clock or its epoch has fallen below ours, history was lost (a failover to a standby that lacked it, a
//     restore in place): the epoch is raised under the clock's lock, above all that we have seen, and everything
//     held in memory is dropped. That compares what was held when the tail was asked for. If more has been published
//     since, both must come from one server: another may have another history behind that point.
//   - A read is linearizable if the tail was asked for after the read came: it joins no question that is under way
//     already. And if the server that was asked had not been replaced: only a commit that it acknowledges proves that,
//     one that began no longer ago than staleness. Heartbeats see to it that there is always one; else, or when
//     staleness is 0, the question comes with a commit of its own (see [replica.confirm]).
type replica struct {
	s *Store
	b backend.Shared

	mu     sync.Mutex     // whoever publishes holds it; before the index's and the hub's
	batch  int64          // that moved the clock to the last revision held, 0 when that is not known
	server backend.Server // that reported the last revision held, zero when that is not known
	alarms int64          // the tail's number of those held
	bytes  int64          // that the next tail is asked for

	wake    chan struct{} // capacity 1
	news    atomic.Bool   // a hint has announced something new
	hints   atomic.Bool   // hints can be expected
	asking  sync.Mutex
	waiting []chan error // reads that the next question answers

	asked   atomic.Uint64 // questions for the tail
	hinted  atomic.Uint64 // hints that announced something new
	adopted atomic.Uint64 // revisions of others
	aheads  atomic.Uint64 // batches that began before all that others wrote was published
	again   atomic.Uint64 // batches that had to take the clock once more

	through atomic.Pointer[time.Time] // what was committed before is published

	stepping sync.Mutex                    // held while a part of the tail is read and published
	flight   atomic.Pointer[chan struct{}] // closed when the batch being committed is published
	below    atomic.Int64                  // revision on top of which that batch comes

	// bounds what a linearizable read may miss after a failover that nobody noticed; 0: nothing
	staleness     time.Duration
	confirmations *gatherer[struct{}, backend.Head] // commits that prove which server is the primary
	confirmed     atomic.Uint64                     // commits that were made for reads

	contact contact
	members memberships
	hinting hinting
	lessor  *sharedLessor
	beatNow chan struct{} // capacity 1: somebody waits for a heartbeat
	left    sync.Once
}

// What adopt finds when a tail cannot be published.
var (
	errLostHistory = errors.New("acknowledged revisions are missing from the database, or it has others under their " +
		"numbers")
	errReset     = errors.New("the store was reset")
	errOvertaken = errors.New("another server's answer was published after this one was asked")
)

// Bounds of one question for the tail; no revision is split.
const (
	tailRows  = 1000
	tailBytes = 4 << 20
)

func newReplica(s *Store, b backend.Shared, batch int64) *replica {
	r := &replica{
		s: s, b: b, batch: batch, bytes: tailBytes, wake: make(chan struct{}, 1),
		beatNow: make(chan struct{}, 1),
	}
	r.hinting.wake = make(chan struct{}, 1)
	r.staleness = max(0, s.cfg.MaxStaleness)
	r.members.later = make(chan struct{})
	now := time.Now()
	r.contact.made(now)
	r.through.Store(&now)
	r.confirmations = together(&s.background, r.confirmNow)
	r.lessor = newSharedLessor(r)
	return r
}

// start starts what keeps the store in step.
func (r *replica) start() {
	for _, work := range []func(){r.run, r.listen, r.sendHints, r.beats, r.watchContact} {
		r.s.background.start(work)
	}
}

// positionTries bounds how often the clock is compacted between two looks at it.
const positionTries = 5

// position returns a clock to start from, and the batch that wrote its revision: who does not know that from the first
// does not notice that the revision is lost later on.
func position(ctx context.Context, b backend.Backend) (clock backend.Clock, batch int64, err error) {
	clock, err = b.Clock(ctx)
	shared, ok := b.(backend.Shared)
	if err != nil || !ok {
		return clock, 0, err
	}
	for range positionTries {
		t, err := shared.Tail(ctx, backend.TailQuery{After: clock.Revision, Limit: 1})
		if err != nil {
			return clock, 0, err
		}
		revision := clock.Revision
		if clock = t.Clock; clock.Revision < revision || clock.Compacted > revision {
			continue
		}
		clock.Revision = revision
		if t.Through == revision {
			return clock, t.Batch, nil
		}
		return clock, t.Base, nil
	}
	return clock, 0, fmt.Errorf("%w: the clock does not stand still", ErrUnavailable)
}

// question is a query for the tail and what was held when it was asked.
type question struct {
	backend.TailQuery
	batch, epoch int64
}

// ask makes a question for what is not held yet.
func (r *replica) ask() question {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.s.index.Position()
	return question{
		TailQuery: backend.TailQuery{After: at.Revision, Limit: tailRows, Bytes: r.bytes, WithPrev: !at.Complete},
		batch:     r.batch, epoch: r.s.epoch.Load(),
	}
}

// reset starts anew from the clock as it is: the index is read again, watches catch up or, when their history is lost,
// end. Callers hold mu. Errors: those of the backend; then nothing has changed.
func (r *replica) reset(ctx context.Context, lost bool) error {
	s := r.s
	clock, batch, err := position(ctx, r.b)
	if err != nil {
		return fmt.Errorf("start anew: %w", err)
	}
	if lost {
		s.cfg.Logger.Error("HISTORY WAS LOST: the database lacks revisions that were acknowledged, as after a "+
			"failover to a standby that had not received them. Caches are dropped and watches end. Clients may still "+
			"hold revisions that exist no more: run 'sqlstore repair --bump-revision N' with an N above all that they "+
			"may have seen, and make replication synchronous",
			"held-revision", s.Revision(), "database-revision", clock.Revision, "epoch", clock.Epoch)
	}
	r.batch, r.server = batch, backend.Server{}
	s.index.Reset(clock)
	// Between the two: who finds this epoch then reads this history, and who still finds the one before is in
	// time for the end of a watch that goes on from what was lost.
	r.s.epoch.Store(clock.Epoch)
	s.hub.Reset(clock, lost)
	s.load.start()
	return nil
}

// lost deals with a history that has lost revisions: it raises the epoch, unless another replica has, and starts
// anew.
func (r *replica) lost(ctx context.Context, q question, reason error) error {
	known := backend.Clock{Revision: q.After, Epoch: q.epoch}
	clock, err := r.b.RaiseEpoch(ctx, known, q.batch)
	if err != nil {
		return fmt.Errorf("look whether history was lost: %w", err)
	}
	if clock.Epoch == q.epoch {
		return nil // it was not: the tail came from another server
	}
	r.s.cfg.Logger.Debug("history was lost", "held-revision", q.After, "reason", reason)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.s.epoch.Load() < clock.Epoch {
		return r.reset(ctx, true)
	}
	return nil
}

// settle deals with what kept a tail from being adopted. It returns nil when asking again makes sense.
func (r *replica) settle(ctx context.Context, q question, err error) error {
	switch {
	case errors.Is(err, errReset), errors.Is(err, errOvertaken), errors.Is(err, backend.ErrOtherEpoch):
		return nil
	case errors.Is(err, errLostHistory):
		return r.lost(ctx, q, err)
	case errors.Is(err, errUnconfirmed):
		_, err = r.confirm(ctx)
		return err
	}
	return err
}

// ReplicaStats counts, since the start, what keeping in step with other replicas took.
type ReplicaStats struct {
	// Asked counts questions for what others wrote, those that came with a batch left out; Hinted the hints of the
	// database that announced something new; Adopted the revisions that came from the database: those of others, and
	// the few of our own that the question found before the batch that wrote them had its answer.
	Asked, Hinted, Adopted uint64
	// Ahead counts the batches that were evaluated before all that others had committed was published. Again counts
	// those that took the clock more than once, as the store started anew or others had committed more than is looked
	// at while the clock is held.
	Ahead, Again uint64
	// Confirmed counts the commits that were made so that reads could rely on their server, as none of late did.
	Confirmed uint64
}

// ReplicaStats returns what keeping in step with other replicas took; ok is false where there can be none.
func (s *Store) ReplicaStats() (stats ReplicaStats, ok bool) { return s.peers.stats() }

func (r *replica) stats() (stats ReplicaStats, ok bool) {
	return ReplicaStats{
		Asked: r.asked.Load(), Hinted: r.hinted.Load(), Adopted: r.adopted.Load(),
		Ahead: r.aheads.Load(), Again: r.again.Load(), Confirmed: r.confirmed.Load(),
	}, true
}
