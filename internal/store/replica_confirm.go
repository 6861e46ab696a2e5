package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// defaultStaleness is shorter than any failover, and longer than the time between two heartbeats.
	defaultStaleness = 2 * time.Second
	// publishStaleness is how long a server may have acknowledged nothing for its answer still to be published to
	// watches. It is longer than the store waits for any commit.
	publishStaleness = 10 * time.Second
	// confirmTries is how often an answer may come from a server other than the confirmed one.
	confirmTries = 3
)

var (
	// errUnconfirmed rejects the answer of a server that may have been replaced without knowing it.
	errUnconfirmed = errors.New("the database server has acknowledged no commit lately: it may have been replaced")
	errServers     = fmt.Errorf("%w: its answers come from several servers in turn; is there more than one primary?",
		ErrUnavailable)
)

// within reports whether an answer relies on a commit that its server acknowledged and that began no longer than bound
// ago. Call it after the answer has arrived, because the process may have stood still in the meantime.
func (r *replica) within(o backend.Origin, bound time.Duration) bool {
	return bound > 0 && r.b.Unconfirmed(o) <= bound
}

// confirm returns the head, read after the call, of a server that is certainly the primary: a commit proves it. Errors:
// ctx's, [ErrClosed], those of the backend.
func (r *replica) confirm(ctx context.Context) (backend.Head, error) {
	return r.confirmations.get(ctx, struct{}{}, 0)
}

func (r *replica) confirmNow() (backend.Head, error) {
	head, err := r.b.Confirm(r.s.ctx, r.self())
	switch {
	case err == nil:
		r.confirmed.Add(1)
		r.reached()
	case r.s.ctx.Err() != nil:
		err = ErrClosed
	}
	return head, err
}

// current calls ask, which reads from the database, until a linearizable read may rely on the answer, at most
// confirmTries times.
func (r *replica) current(ctx context.Context, ask func() (backend.Origin, error)) error {
	for range confirmTries {
		o, err := ask()
		if err != nil || r.within(o, r.staleness) {
			return err
		}
		// A commit that begins after the answer, and that the same server acknowledges, proves that it was the primary
		// then.
		if head, err := r.confirm(ctx); err != nil || head.Origin.Server == o.Server {
			return err
		}
	}
	return errServers
}
