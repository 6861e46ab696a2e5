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

// follower keeps a store in step with a database that other processes write to.
//
// Whoever reads the tail hands it to adopt, which publishes what is not published yet: the sequencer for each batch, in the
// round trip in which it takes the clock; and run, when a hint says that somebody has committed, when a read has to be
// linearizable, and now and then in case a hint was lost. What keeps the invariants:
//
//   - Revisions are published without a gap, each once and whole: adopt and the sequencer's publish hold mu, and publish only
//     what lies above the revision published last. A revision that is missing below others is not passed over: the store is
//     reset.
//   - A tail says which batch wrote the last revision that we hold. If that is another than the one we know, or the clock has
//     fallen below, history was lost (a failover to a standby that lacked it): the incarnation is raised under the clock's lock,
//     and everything held in memory is dropped.
//   - A read is linearizable if the tail was asked for after the read came: it joins no question that is under way already.
type follower struct {
	s *Store
	b backend.Shared

	mu          sync.Mutex // whoever publishes holds it; before the index's and the hub's
	batch       int64      // that wrote the last revision held, 0 when no row is of it
	incarnation atomic.Int64
	alarms      int64 // the tail's number of those held
	limit       int   // rows that the next tail is asked for

	wake    chan struct{} // capacity 1
	told    atomic.Bool   // a hint has told of something new
	hints   atomic.Bool   // hints can be expected
	asking  sync.Mutex
	waiting []chan error // reads that the next question answers

	asked   atomic.Uint64 // questions for the tail
	hinted  atomic.Uint64 // hints that told of something new
	adopted atomic.Uint64 // revisions of others
	again   atomic.Uint64 // batches that had to take the clock once more

	flight atomic.Pointer[chan struct{}] // closed when the batch being committed is published

	contact contact
	members memberships
	lessor  *sharedLessor
	beating sync.Mutex // one heartbeat at a time
	beaten  time.Time  // when the last one began; guarded by beating
}

// What adopt finds when a tail cannot be published.
var (
	errLostHistory = errors.New("acknowledged revisions are missing from the database, or it has others under their numbers")
	errReset       = errors.New("the store was reset")
)

// tailRows bounds the rows that one question asks for.
const tailRows = 1000

func newFollower(s *Store, b backend.Shared, clock backend.Clock, batch int64) *follower {
	f := &follower{s: s, b: b, batch: batch, limit: chunkFirst, wake: make(chan struct{}, 1)}
	f.incarnation.Store(clock.Incarnation)
	f.contact.made(time.Now())
	f.lessor = &sharedLessor{f: f}
	return f
}

// positionTries bounds how often the clock is compacted between two looks at it.
const positionTries = 5

// position returns a clock to start from, and the batch that wrote its revision: who does not know that from the first does not
// notice that the revision is lost later on.
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
		return clock, t.Base, nil
	}
	return clock, 0, fmt.Errorf("%w: the clock does not stand still", ErrUnavailable)
}

// question is a query for the tail and what was held when it was asked.
type question struct {
	backend.TailQuery
	batch, incarnation int64
}

// ask makes a question for what is not held yet.
func (f *follower) ask() question {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s.index.mu.RLock()
	defer f.s.index.mu.RUnlock()
	return question{
		TailQuery: backend.TailQuery{After: f.s.index.rev, Limit: f.limit, WithPrev: !f.s.index.complete},
		batch:     f.batch, incarnation: f.incarnation.Load(),
	}
}

// adopt publishes what t has beyond what is published, and takes over what its clock says. Errors: errLostHistory, errReset
// when the store had to start anew from t's clock, those of the backend.
func (f *follower) adopt(ctx context.Context, q question, t *backend.Tail) error {
	superseded, err := f.superseded(ctx, t)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch held := f.incarnation.Load(); {
	case t.Clock.Incarnation < held || q.incarnation < held:
		return errReset // asked before the reset
	case t.Clock.Incarnation > held:
		if err := f.reset(ctx, true); err != nil {
			return err
		}
		return errReset
	case t.Clock.Revision < q.After, t.Base != 0 && t.Base != q.batch:
		return fmt.Errorf("%w: revision %d was seen, the database is at %d", errLostHistory, q.After, t.Clock.Revision)
	}
	if t.Alarms != f.alarms {
		if err := f.s.alarms.load(ctx, f.b); err != nil {
			return err
		}
		f.alarms = t.Alarms
	}
	rev := f.s.Revision()
	if err := f.whole(q, t, rev); err != nil {
		f.s.cfg.Logger.Warn("this replica has fallen behind a compaction: it reads its index anew, and watches below end",
			"revision", rev, "database-revision", t.Clock.Revision, "compacted", t.Clock.Compacted, "reason", err)
		if err := f.reset(ctx, false); err != nil {
			return err
		}
		return errReset
	}
	compacted := int64(0)
	if t.Through >= t.Clock.Revision && t.Through >= rev {
		compacted = t.Clock.Compacted
	}
	if t.Through > rev {
		f.batch = t.Batch
	}
	f.publish(t, superseded, rev, compacted)
	return nil
}

// whole says whether nothing is missing from what t has above rev.
func (f *follower) whole(q question, t *backend.Tail, rev int64) error {
	if t.Purged > q.After+1 && t.Clock.Revision > q.After {
		return fmt.Errorf("rows up to revision %d may have been removed", t.Purged)
	}
	next := q.After + 1
	for i := range t.Changes {
		switch r := t.Changes[i].Row.ModRevision; r {
		case next - 1: // another row of the same revision
		case next:
			next++
		default:
			return fmt.Errorf("revision %d is missing", next)
		}
	}
	if t.Through > rev && next != t.Through+1 {
		return fmt.Errorf("revisions from %d to %d are missing", next, t.Through)
	}
	return nil
}

// publish makes the changes of t above rev visible. Callers hold mu.
func (f *follower) publish(t *backend.Tail, superseded map[int]*item, rev, compacted int64) {
	s := f.s
	var rows, prevs []*item
	before := map[string]*item{} // what the revisions published here made of a key
	var fx backend.Effects
	s.index.mu.RLock()
	for i := 0; i < len(t.Changes); {
		first := i
		for i < len(t.Changes) && t.Changes[i].Row.ModRevision == t.Changes[first].Row.ModRevision {
			i++
		}
		if t.Changes[first].Row.ModRevision <= rev {
			continue
		}
		began := len(rows)
		for j := first; j < i; j++ {
			r := t.Changes[j].Row
			key := keyString(r.Key)
			prev, ok := before[key]
			if !ok {
				prev, _ = s.index.tree.Get(key)
			}
			if prev != nil {
				r.Key = prev.Key // all versions of a key share its bytes
			}
			if prev == nil && !ok && !s.index.complete {
				prev = superseded[j]
			}
			if prev != nil && prev.Deleted || r.PrevRevision == 0 {
				prev = nil // a key that was deleted before, perhaps by the same transaction
			}
			rows, prevs = append(rows, newItem(r)), append(prevs, prev)
			fx.Rows = append(fx.Rows, r)
		}
		for _, it := range rows[began:] {
			before[keyString(it.Key)] = it
		}
	}
	s.index.mu.RUnlock()
	moved := compacted != 0 && etcdCompacted(compacted) > etcdCompacted(s.compacted())
	if !moved {
		compacted = 0
	}
	if len(rows) == 0 && !moved {
		return
	}
	through := max(rev, t.Through)
	f.adopted.Add(uint64(through - rev))
	s.quota.wrote(&fx)
	s.index.apply(rows, through, compacted)
	s.hub.publish(rows, prevs, through, compacted)
}

// superseded reads, for an index that may not know them, the rows that watchers are shown as superseded by those of t.
func (f *follower) superseded(ctx context.Context, t *backend.Tail) (map[int]*item, error) {
	var out map[int]*item
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.Prev == nil {
			continue
		}
		it, err := f.s.before(ctx, c)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[int]*item{}
		}
		out[i] = it
	}
	return out, nil
}

// reset starts anew from the clock as it is: the index is read again, watches catch up or, when their history is lost, end.
// Callers hold mu. Errors: those of the backend; then nothing has changed.
func (f *follower) reset(ctx context.Context, lost bool) error {
	s := f.s
	clock, batch, err := position(ctx, f.b)
	if err != nil {
		return fmt.Errorf("start anew: %w", err)
	}
	if lost {
		s.cfg.Logger.Error("HISTORY WAS LOST: the database lacks revisions that were acknowledged, as after a failover to a standby "+
			"that had not received them. Caches are dropped and watches end. Clients may still hold revisions that exist no more: run "+
			"'sqlstore repair --bump-revision N' with an N above all that they may have seen, and make replication synchronous",
			"held-revision", s.Revision(), "database-revision", clock.Revision, "incarnation", clock.Incarnation)
	}
	f.batch = batch
	f.incarnation.Store(clock.Incarnation)
	s.counts.clear()
	s.index.reset(clock.Revision, clock.Compacted)
	s.hub.reset(clock.Revision, clock.Compacted, lost)
	s.load.start()
	return nil
}

// lost deals with a history that has lost revisions: it raises the incarnation, unless another replica has, and starts anew.
func (f *follower) lost(ctx context.Context, q question, reason error) error {
	held := backend.Clock{Revision: q.After, Incarnation: q.incarnation}
	clock, err := f.b.RaiseIncarnation(ctx, held, q.batch)
	if err != nil {
		return fmt.Errorf("look whether history was lost: %w", err)
	}
	if clock.Incarnation == q.incarnation {
		return nil // it was not: the tail came from another server
	}
	f.s.cfg.Logger.Debug("history was lost", "held-revision", q.After, "reason", reason)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.incarnation.Load() < clock.Incarnation {
		return f.reset(ctx, true)
	}
	return nil
}

// FollowStats counts, since the start, what keeping in step with other replicas took.
type FollowStats struct {
	// Asked counts questions for what others wrote, those that came with a batch left out; Hinted the hints of the database that
	// told of something new; Adopted the revisions that came from the database: those of others, and the few of our own that the
	// question found before the batch that wrote them had its answer.
	Asked, Hinted, Adopted uint64
	// Again counts the batches that took the clock more than once, as others had committed more than one look tells.
	Again uint64
}

// FollowStats tells what keeping in step with other replicas took; ok is false where there can be none.
func (s *Store) FollowStats() (stats FollowStats, ok bool) {
	f := s.follower
	if f == nil {
		return stats, false
	}
	return FollowStats{Asked: f.asked.Load(), Hinted: f.hinted.Load(), Adopted: f.adopted.Load(), Again: f.again.Load()}, true
}

// settle deals with what kept a tail from being adopted. It returns nil when asking again makes sense.
func (f *follower) settle(ctx context.Context, q question, err error) error {
	switch {
	case errors.Is(err, errReset):
		return nil
	case errors.Is(err, errLostHistory):
		return f.lost(ctx, q, err)
	}
	return err
}
