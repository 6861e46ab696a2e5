package store

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// peers is how a store deals with the other processes that may write to its database. A replica follows what they
// write. A store that is alone has no peers: it has published everything that was committed, nobody waits for it, and
// it does the maintenance itself. There, most of these methods do nothing and return at once.
type peers interface {
	// start starts the background work. leave is the last call; the store makes it when it closes.
	start()
	leave()

	// sync returns once everything that anyone committed before the call is published. Errors: ctx's, [ErrClosed],
	// those of the backend.
	sync(ctx context.Context) error
	// reach returns once everything up to revision, which is committed, is published. Errors: those of sync.
	reach(ctx context.Context, revision int64) error
	// behind returns the replica's lag: the age of the latest moment for which everything committed before it is known
	// to be published.
	behind() time.Duration

	// The sequencer calls the following methods for each batch, in this order.

	// most returns the maximum size of the next batch in bytes. Other processes may have to wait for the batch.
	most() int64
	// begin takes the clock and prepares the evaluator for batch, on the committed state. Errors: those of the backend.
	begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error)
	// join adds the calls that arrived while the batch waited for the clock, and returns the batch.
	join(batch []*call) []*call
	// steady reports whether the index that e was evaluated on showed the committed state throughout.
	steady(e *evaluator) bool
	// unchanged ends the transaction of a batch that changed nothing, once its answers are certain. Errors:
	// [ErrUnavailable].
	unchanged(ctx context.Context, tx backend.Tx, e *evaluator) error
	// departs records that a batch on top of revision base is being committed. The returned function records that the
	// batch is published, or will not be.
	departs(base int64) (arrives func())
	// publish makes a committed batch visible.
	publish(ctx context.Context, e *evaluator)
	// doubt handles a commit of unknown outcome.
	doubt(err error)

	// share makes the other processes keep the rows of a stream's pin, too, if the stream takes long. Callers hold
	// pins.mu.
	share(p *pin)
	// pinFor makes the other processes keep the rows that can be read at rev, for d, and returns the id of that pin in
	// the database. renewPin makes it end d from now, and free ends it. Errors: those of the backend.
	pinFor(ctx context.Context, rev int64, d time.Duration) (id int64, err error)
	renewPin(ctx context.Context, id int64, d time.Duration) error
	free(id int64)
	// used returns the bytes that count against the quota, given the size of the database.
	used(size backend.Size) int64

	// membership returns the live replicas, nil when there can be no others, and the id of the leader.
	membership() (members []backend.Member, leader uint64)
	// refresh updates the membership. Errors: see [Store.RefreshMembers].
	refresh(ctx context.Context) error
	// leads reports whether this process does the maintenance.
	leads() bool
	// unreachable returns a channel that is closed while the database is out of reach; see [Store.NoLeader].
	unreachable() <-chan struct{}
	// stats returns counters of the work that following the other processes took; ok is false where there is nothing to
	// follow.
	stats() (stats ReplicaStats, ok bool)
}

// soleBatch bounds the bytes that a store that is alone dequeues from each line for one batch.
const soleBatch = 64 << 20

// alone implements peers for a database that no other process writes to.
type alone struct{ s *Store }

func (alone) start() {}
func (alone) leave() {}

func (alone) sync(context.Context) error         { return nil }
func (alone) reach(context.Context, int64) error { return nil }
func (alone) behind() time.Duration              { return 0 }

// most returns the constant soleBatch: more in one commit would take none of them less time.
func (alone) most() int64 { return soleBatch }

// begin requires that everything committed is published, and fails otherwise.
func (a alone) begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	q := a.s.seq
	n, complete, published := q.needs(batch)
	tx, err := a.s.backend.Begin(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	loaded := tx.Loaded()
	if loaded.Clock.Revision != published {
		tx.Rollback()
		return nil, nil, fmt.Errorf("%w: the database is at revision %d, the last one published is %d",
			backend.ErrUnknownOutcome, loaded.Clock.Revision, published)
	}
	return tx, q.evaluator(ctx, loaded, complete), nil
}

func (alone) join(batch []*call) []*call { return batch }
func (alone) steady(*evaluator) bool     { return true }

func (alone) unchanged(_ context.Context, tx backend.Tx, _ *evaluator) error {
	tx.Rollback()
	return nil
}

func (alone) departs(int64) (arrives func()) { return func() {} }

func (a alone) publish(_ context.Context, e *evaluator) {
	a.s.alarms.apply(&e.effects)
	a.s.setAuth(e.auth)
	a.s.publish(e, e.rows, e.prevs)
}

// doubt stops writing: only a restart can find out what was committed.
func (a alone) doubt(err error) { a.s.fail(err) }

func (alone) share(*pin)                                                  {}
func (alone) pinFor(context.Context, int64, time.Duration) (int64, error) { return 0, nil }
func (alone) renewPin(context.Context, int64, time.Duration) error        { return nil }
func (alone) free(int64)                                                  {}
func (alone) used(size backend.Size) int64                                { return size.Total }

func (a alone) membership() ([]backend.Member, uint64) { return nil, a.s.settings.MemberID }
func (alone) refresh(context.Context) error            { return nil }
func (alone) leads() bool                              { return true }
func (alone) unreachable() <-chan struct{}             { return nil }
func (alone) stats() (ReplicaStats, bool)              { return ReplicaStats{}, false }
