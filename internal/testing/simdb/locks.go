package simdb

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Timeouts, those of package postgres.
const (
	connectTimeout = 3 * time.Second
	readTimeout    = 8 * time.Second
	// lockedTimeout ends a wait for a lock; beginTimeout and confirmTimeout end a client's wait for all of it.
	lockedTimeout  = 5 * time.Second
	beginTimeout   = 7 * time.Second
	confirmTimeout = 3 * time.Second
	commitTimeout  = 10 * time.Second
	// silenceTimeout ends a transaction whose client is silent.
	silenceTimeout = 4 * time.Second
)

// What transactions lock. All take several in this order.
type lockName struct {
	table string
	id    int64
}

var (
	clockLock       = lockName{table: "clock"}
	maintenanceLock = lockName{table: "maintenance"}
	extensionLock   = lockName{table: "lease_extension"}
	purgeLock       = lockName{table: "purge"}
)

func leaseLock(id int64) lockName { return lockName{"leases", id} }

// locks are the locks of one run of a server. Cluster.mu guards them.
type locks map[lockName]*lockQueue

type lockQueue struct{ waiting []chan struct{} }

// errLockTimeout is the answer of a server that could not grant a lock in time.
var errLockTimeout = errors.New("canceling statement due to lock timeout")

// acquire takes a lock for x. It waits until ctx or the run of x's server ends, or lockedTimeout has passed.
func (x *transaction) acquire(ctx context.Context, name lockName) error {
	c := x.run.server.cluster
	c.mu.Lock()
	if slices.Contains(x.held, name) {
		c.mu.Unlock()
		return nil
	}
	q := x.run.locks[name]
	if q == nil {
		x.run.locks[name] = &lockQueue{}
		x.held = append(x.held, name)
		c.mu.Unlock()
		return nil
	}
	turn := make(chan struct{}, 1)
	q.waiting = append(q.waiting, turn)
	c.mu.Unlock()
	timeout := time.NewTimer(lockedTimeout)
	defer timeout.Stop()
	var err error
	select {
	case <-turn:
	case <-timeout.C:
		err = errLockTimeout
	case <-ctx.Done():
		err = ctx.Err()
	case <-x.run.ended:
		err = errBroken
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		x.held = append(x.held, name)
		return nil
	}
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		x.run.release(name) // it was granted at the same time
	}
	return err
}

// release passes a lock on to the next who waits. Callers hold Cluster.mu.
func (r *run) release(name lockName) {
	q := r.locks[name]
	if len(q.waiting) == 0 {
		delete(r.locks, name)
		return
	}
	next := q.waiting[0]
	q.waiting = q.waiting[1:]
	next <- struct{}{}
}

// unlock ends x: it releases its locks. Callers hold Cluster.mu.
func (x *transaction) unlock() {
	for _, name := range x.held {
		x.run.release(name)
	}
	x.held, x.over = nil, true
}
