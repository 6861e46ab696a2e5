package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// peers is how a store deals with the other processes that may write to its database. A replica keeps in step with
// them. A store that is alone has none: what it has published is all that was committed, nobody waits for it, and the
// maintenance is its own. So most of these do nothing there, at once.
type peers interface {
	// start starts the background work. leave is the last call, when the store closes.
	start()
	leave()

	// sync returns when everything is published that was committed, by whomever, before the call. Errors: ctx's,
	// [ErrClosed], those of the backend.
	sync(ctx context.Context) error
	// reach returns when everything up to revision is published, which is committed. Errors: those of sync.
	reach(ctx context.Context, revision int64) error
	// behind is the age of the last moment before which everything that was committed is known to be published.
	behind() time.Duration

	// The sequencer calls the following for each batch, in this order.

	// most bounds the bytes of the next batch, for which others may wait.
	most() int64
	// begin takes the clock and readies the evaluator for batch, on the committed state. Errors: those of the backend.
	begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error)
	// join adds to a batch that has the clock what came while it waited for it.
	join(batch []*call) []*call
	// steady says whether the index that e was evaluated on has shown the committed state all the while.
	steady(e *evaluator) bool
	// unchanged ends the transaction of a batch that has changed nothing, once its answers are certain. Errors:
	// [ErrUnavailable].
	unchanged(ctx context.Context, tx backend.Tx, e *evaluator) error
	// departs records that a batch on top of revision base is being committed; the function that it returns records
	// that it is published, or not to be.
	departs(base int64) (arrives func())
	// publish makes a batch that is committed visible.
	publish(ctx context.Context, e *evaluator)
	// doubt deals with a commit of unknown outcome.
	doubt(err error)

	// share has the others keep the rows of a stream's pin, too, if the stream takes long. Callers hold pins.mu.
	share(p *pin)
	// pinFor has the others keep the rows that can be read at rev, for d, and returns the id of that pin in the
	// database. free ends it. Errors: those of the backend.
	pinFor(ctx context.Context, rev int64, d time.Duration) (id int64, err error)
	free(id int64)
	// used is what counts against the quota of a database of that size.
	used(size backend.Size) int64

	// membership returns the replicas that live, nil when there can be no others, and the id of the one that leads.
	membership() (members []backend.Member, leader uint64)
	// hear updates the membership. Errors: see [Store.HearMembers].
	hear(ctx context.Context) error
	// leads says whether this process does the maintenance.
	leads() bool
	// unreachable returns a channel that is closed while the database is out of reach, see [Store.NoLeader].
	unreachable() <-chan struct{}
	// stats counts what keeping in step took; ok is false where there is nothing to keep in step with.
	stats() (stats ReplicaStats, ok bool)
}

// alone is for a database that no other process writes to.
type alone struct{ s *Store }

func (alone) start() {}
func (alone) leave() {}

func (alone) sync(context.Context) error         { return nil }
func (alone) reach(context.Context, int64) error { return nil }
func (alone) behind() time.Duration              { return 0 }

func (alone) most() int64 { return math.MaxInt64 }

// begin relies on all that was committed being published, and fails if it is not.
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
	a.s.publish(e, e.rows, e.prevs)
}

// doubt stops writing: only a restart can read what happened.
func (a alone) doubt(err error) { a.s.fail(err) }

func (alone) share(*pin)                                                  {}
func (alone) pinFor(context.Context, int64, time.Duration) (int64, error) { return 0, nil }
func (alone) free(int64)                                                  {}
func (alone) used(size backend.Size) int64                                { return size.Total }

func (a alone) membership() ([]backend.Member, uint64) { return nil, a.s.settings.MemberID }
func (alone) hear(context.Context) error               { return nil }
func (alone) leads() bool                              { return true }
func (alone) unreachable() <-chan struct{}             { return nil }
func (alone) stats() (ReplicaStats, bool)              { return ReplicaStats{}, false }
