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

// replica lets a store follow a database that other processes write to.
//
// Every reader of the tail hands it to adopt, which publishes what is not published yet. The sequencer reads the tail
// for each batch, in the round trip that takes the clock. run reads it when a hint says that somebody has committed,
// when a read has to be linearizable, and now and then in case a hint was lost. This is how the invariants hold:
//
//   - Revisions are published without a gap, each once and whole: adopt and publish hold mu, and publish only what lies
//     above the last published revision. If a revision is missing below others, the store does not skip it, but resets.
//   - A tail says which batch wrote the last revision that the store holds. If that is not the batch that the store
//     knows, or if the clock or its epoch has fallen below the store's, history was lost (a failover to a standby that
//     lacked it, a restore in place). The store then raises the epoch under the clock's lock, above every epoch that it
//     has seen, and drops everything that it holds in memory. This compares what the store held when it asked for the
//     tail. If more has been published since, both must come from one server: another may have a different history
//     after that point.
//   - A read is linearizable if the tail was asked for after the read arrived: the read does not join a question that
//     is already under way. In addition, the server that was asked must not have been replaced. Only a commit that it
//     acknowledges proves that, one that began no longer ago than staleness. Heartbeats make sure that there always is
//     such a commit. If there is none, or if staleness is 0, the question comes with its own commit (see
//     [replica.confirm]).
type replica struct {
	s *Store
	b backend.Shared

	mu           sync.Mutex     // held while publishing; locked before the index's and the hub's
	batch        int64          // that moved the clock to the last revision held, 0 if unknown
	server       backend.Server // that reported the last revision held, zero if unknown
	alarms       int64          // the number that the tail reports for the alarms, users and roles held
	alarmsServer backend.Server // that reported it
	bytes        int64          // to ask for in the next tail

	wake    chan struct{} // capacity 1
	news    atomic.Bool   // a hint has announced something new
	hints   atomic.Bool   // the database sends hints
	asking  sync.Mutex
	waiting []chan error // reads that the next question answers

	asked   atomic.Uint64 // questions for the tail
	hinted  atomic.Uint64 // hints that announced something new
	adopted atomic.Uint64 // revisions that others wrote
	aheads  atomic.Uint64 // batches that began before everything that others wrote was published
	again   atomic.Uint64 // times that a batch gave the clock back to try again

	through atomic.Pointer[time.Time] // everything committed before this time is published

	stepping sync.Mutex                    // held while a part of the tail is read and published
	flight   atomic.Pointer[chan struct{}] // closed when the batch being committed is published
	below    atomic.Int64                  // the revision below that batch

	// What a linearizable read may miss after a failover that nobody noticed; 0 for nothing.
	staleness     time.Duration
	confirmations *gatherer[struct{}, backend.Head] // commits that prove which server is the primary
	confirmed     atomic.Uint64                     // commits made for reads

	contact  contact
	members  memberships
	hinting  hinting
	lessor   *sharedLessor
	beatNow  chan struct{} // capacity 1: somebody waits for a heartbeat
	namesake namesake
	left     sync.Once
}

// Reasons why adopt cannot publish a tail.
var (
	errLostHistory = errors.New("acknowledged revisions are missing from the database, or it has others under their " +
		"numbers")
	errReset     = errors.New("the store was reset")
	errOvertaken = errors.New("another server's answer was published after this one was asked")
)

// tailRows and tailBytes bound one question for the tail, which never splits a revision.
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

// start starts the background work that follows the database.
func (r *replica) start() {
	for _, work := range []func(){r.run, r.listen, r.sendHints, r.beats, r.watchContact} {
		r.s.background.start(work)
	}
}

// positionTries bounds how often a compaction may come between two readings of the clock.
const positionTries = 5

// start is where a store starts: a clock, the batch that wrote its revision, and the server that says so. A store that
// does not know the batch from the start would not notice a later loss of that revision.
type start struct {
	clock  backend.Clock
	batch  int64
	server backend.Server
}

// position returns where to start.
func position(ctx context.Context, b backend.Backend) (start, error) {
	clock, err := b.Clock(ctx)
	shared, ok := b.(backend.Shared)
	if err != nil || !ok {
		return start{clock: clock}, err
	}
	for range positionTries {
		t, err := shared.Tail(ctx, backend.TailQuery{After: clock.Revision, Limit: 1})
		if err != nil {
			return start{}, err
		}
		revision := clock.Revision
		if clock = t.Clock; clock.Revision < revision || clock.Compacted > revision {
			continue
		}
		clock.Revision = revision
		if t.Through == revision {
			return start{clock, t.Batch, t.Origin.Server}, nil
		}
		return start{clock, t.Base, t.Origin.Server}, nil
	}
	return start{}, fmt.Errorf("%w: the clock does not stand still", ErrUnavailable)
}

// question is a query for the tail, and what was held when it was made.
type question struct {
	backend.TailQuery
	batch, epoch int64
}

// ask returns a question for everything that is not held yet.
func (r *replica) ask() question {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.s.index.Position()
	return question{
		TailQuery: backend.TailQuery{After: at.Revision, Limit: tailRows, Bytes: r.bytes, WithPrev: !at.Complete},
		batch:     r.batch, epoch: r.s.epoch.Load(),
	}
}

// reset starts over from the clock as it is. The index is loaded again. Watches catch up if t, a tail, shows that the
// history held goes on, and nothing has changed since. Otherwise, and without a tail, they end: history was lost.
// Callers hold mu. Errors: errLostHistory, errOvertaken, those of the backend; nothing has changed then.
func (r *replica) reset(ctx context.Context, t *backend.Tail) error {
	s := r.s
	at, err := position(ctx, r.b)
	if err != nil {
		return fmt.Errorf("start anew: %w", err)
	}
	clock, known, held := at.clock, s.epoch.Load(), s.Revision()
	lost := t == nil || clock.Epoch > known
	switch {
	case clock.Epoch < known, !lost && clock.Revision < held:
		return fmt.Errorf("start anew: %w: revision %d of epoch %d was seen, the database is at %d of %d",
			errLostHistory, held, known, clock.Revision, clock.Epoch)
	case !lost && at.server != t.Origin.Server:
		return fmt.Errorf("start anew: %w", errOvertaken)
	}
	if lost {
		s.cfg.Logger.Error("HISTORY WAS LOST: the database lacks revisions that were acknowledged, as after a "+
			"failover to a standby that had not received them. Caches are dropped and watches end. Clients may still "+
			"hold revisions that exist no more: run 'sqlstore repair --bump-revision N' with an N above all that they "+
			"may have seen, and make replication synchronous",
			"held-revision", held, "database-revision", clock.Revision, "epoch", clock.Epoch)
	}
	if err := r.loadShared(ctx); err != nil {
		return fmt.Errorf("start anew: %w", err)
	}
	r.batch, r.server, r.alarmsServer = at.batch, backend.Server{}, backend.Server{}
	r.alarms = -1
	s.index.Reset(clock)
	// The epoch changes between the two resets: who finds the new epoch then reads the new history, and who still finds
	// the old one is in time for the end of a watch that continues from lost history.
	r.s.epoch.Store(clock.Epoch)
	s.hub.Reset(clock, lost)
	s.load.start()
	return nil
}

// lost handles the loss of revisions: it raises the epoch, unless another replica has done so, and starts over.
func (r *replica) lost(ctx context.Context, q question, reason error) error {
	known := backend.Clock{Revision: q.After, Epoch: q.epoch}
	clock, err := r.b.RaiseEpoch(ctx, known, q.batch)
	if err != nil {
		return fmt.Errorf("look whether history was lost: %w", err)
	}
	if clock.Epoch == q.epoch {
		return nil // no history was lost: the tail came from another server
	}
	r.s.cfg.Logger.Debug("history was lost", "held-revision", q.After, "reason", reason)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.s.epoch.Load() >= clock.Epoch {
		return nil
	}
	if err = r.reset(ctx, nil); errors.Is(err, errLostHistory) {
		return nil // another server says so, which has to be asked
	}
	return err
}

// settle handles the reason why a tail was not adopted. It returns nil if it makes sense to ask again.
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

// ReplicaStats counts, since the start, the work that following other replicas took.
type ReplicaStats struct {
	// Asked counts the questions for what others wrote, without those that came with a batch. Hinted counts the
	// database's hints that announced something new. Adopted counts the revisions that came from the database: those
	// that others wrote, and the few of this replica that a question found before the batch that wrote them had its
	// answer.
	Asked, Hinted, Adopted uint64
	// Ahead counts the batches that were evaluated before everything that others had committed was published. Again
	// counts how often a batch gave the clock back, because the store started over, or because others had committed
	// more than a batch reads while it holds the clock.
	Ahead, Again uint64
	// Confirmed counts the commits made so that reads could rely on their server, because it had acknowledged none of
	// late.
	Confirmed uint64
}

// ReplicaStats returns counters of the work that following other replicas took; ok is false if there can be none.
func (s *Store) ReplicaStats() (stats ReplicaStats, ok bool) { return s.peers.stats() }

func (r *replica) stats() (stats ReplicaStats, ok bool) {
	return ReplicaStats{
		Asked: r.asked.Load(), Hinted: r.hinted.Load(), Adopted: r.adopted.Load(),
		Ahead: r.aheads.Load(), Again: r.again.Load(), Confirmed: r.confirmed.Load(),
	}, true
}
