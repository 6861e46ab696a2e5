package store

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// peers is what a store does because other processes may write to its database. A replica keeps in step with them. For
// a store that is alone nothing is left to do, or the simple case of it: it knows everything that was committed, no
// other process waits for it, and it has the maintenance.
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

// alone is the peers of a store whose database no other process writes to.
type alone struct{ s *Store }

func (alone) start() {}
func (alone) leave() {}

func (alone) sync(context.Context) error         { return nil }
func (alone) reach(context.Context, int64) error { return nil }
func (alone) behind() time.Duration              { return 0 }

func (alone) share(*pin)                                                  {}
func (alone) pinFor(context.Context, int64, time.Duration) (int64, error) { return 0, nil }
func (alone) free(int64)                                                  {}
func (alone) used(size backend.Size) int64                                { return size.Total }

func (a alone) membership() ([]backend.Member, uint64) { return nil, a.s.settings.MemberID }
func (alone) hear(context.Context) error               { return nil }
func (alone) leads() bool                              { return true }
func (alone) unreachable() <-chan struct{}             { return nil }
func (alone) stats() (ReplicaStats, bool)              { return ReplicaStats{}, false }
