package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// defaultStaleness is less than any failover takes, and more than the time between two heartbeats.
	defaultStaleness = 2 * time.Second
	// publishStaleness is how long a server may have acknowledged nothing when what it answers is published to watches:
	// longer than any commit is waited for.
	publishStaleness = 10 * time.Second
	// confirmTries is how often an answer may come from another server than the one that was confirmed.
	confirmTries = 3
)

var (
	// errUnconfirmed is for an answer of a server that may have been replaced without knowing it.
	errUnconfirmed = errors.New("the database server has acknowledged no commit lately: it may have been replaced")
	errServers     = fmt.Errorf("%w: its answers come from several servers in turn; is there more than one primary?",
		ErrUnavailable)
)

// within says whether an answer relies on a commit that its server acknowledged and that began no longer ago than
// bound. It is to be called after the answer has come: the process may have stood still meanwhile.
func (r *replica) within(o backend.Origin, bound time.Duration) bool {
	return bound > 0 && r.b.Unconfirmed(o) <= bound
}

// confirm returns the head of a server that is the primary for certain, read after the call: a commit proves it.
// Errors: ctx's, [ErrClosed], those of the backend.
func (r *replica) confirm(ctx context.Context) (backend.Head, error) {
	return r.confirmations.get(ctx, struct{}{})
}

func (r *replica) confirmNow() (backend.Head, error) {
	head, err := r.b.Confirm(r.s.ctx, r.self())
	switch {
	case err == nil:
		r.confirmed.Add(1)
		r.contact.made(time.Now())
	case r.s.ctx.Err() != nil:
		err = ErrClosed
	}
	return head, err
}

// current has ask read from the database, again if need be, until the answer is one that a linearizable read may rely
// on.
func (r *replica) current(ctx context.Context, ask func() (backend.Origin, error)) error {
	for range confirmTries {
		o, err := ask()
		if err != nil || r.within(o, r.staleness) {
			return err
		}
		// A commit that begins behind the answer and is acknowledged by its server proves that it was the primary then.
		if head, err := r.confirm(ctx); err != nil || head.Origin.Server == o.Server {
			return err
		}
	}
	return errServers
}
