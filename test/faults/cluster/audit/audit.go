package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/faults/cluster/load"
	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	linearTimeout = time.Minute
	watchTimeout  = time.Minute // for watches to see the last write
	pollInterval  = 50 * time.Millisecond
)

// Audit describes a run to check.
type Audit struct {
	// Run is the load, which has stopped. Its watches go on.
	Run *load.Run
	// Replicas has a client of each replica.
	Replicas []*clientv3.Client
	// Connect connects to the database of the server that accepts writes.
	Connect func(context.Context) (*pgx.Conn, error)
	// Recorded is the history that was read before it was compacted.
	Recorded *history.Recorded
	// From is the revision before the load.
	From int64
	// Stale is how old an answer may be.
	Stale time.Duration
}

// Result counts what was checked.
type Result struct {
	Requests, Answered, Writes int
	Events, Leases             int   // events of all watches
	To                         int64 // the last revision
	// Late says what is wrong unless answers may be as old as Audit.Stale; nil if nothing is.
	Late error
}

// String formats the result for a log.
func (r Result) String() string {
	return fmt.Sprintf("checked %d requests, %d of them answered, %d writes, up to revision %d, %d events of watches, "+
		"%d leases", r.Requests, r.Answered, r.Writes, r.To, r.Events, r.Leases)
}

// Check waits until the leases that nobody renews have expired and the watches have seen everything. Then it checks
// everything, and returns all violations.
func (a *Audit) Check(ctx context.Context) (Result, error) {
	if err := errors.Join(a.Run.Err(), a.kept(ctx), a.leasesEnd(ctx)); err != nil {
		return Result{}, err
	}
	to, err := a.revision(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := a.read(ctx, to); err != nil {
		return Result{}, fmt.Errorf("rows: %w", err)
	}
	return a.compare(ctx, to)
}

func (a *Audit) compare(ctx context.Context, to int64) (Result, error) {
	var failed []error
	check := func(what string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	base, events := a.Recorded.Base, a.Recorded.Events
	check("revisions", history.Order(base, events, a.From, to))
	ops := a.Run.Journal.Ops()
	result := Result{Requests: len(ops), Leases: len(a.Run.Journal.Leases()), To: to}
	fate, err := history.Answers(base, ops, events, 0, linearTimeout)
	if err != nil && a.Stale > 0 {
		late := err
		if fate, err = history.Answers(base, ops, events, a.Stale, linearTimeout); err == nil {
			result.Late = late
		}
	}
	result.Writes = len(fate)
	check("answers", err)
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	for _, w := range a.Run.Watches {
		got, want, seen := w.Wait(ctx, events)
		result.Events += len(got)
		check("watch of "+w.Name, history.Watch(got, want))
		if w.Prefix == "" {
			check("leases, by the watch of "+w.Name, history.Leases(a.ending(), events, seen, true))
		}
	}
	for _, o := range ops {
		if o.Outcome != history.Unknown {
			result.Answered++
		}
	}
	return result, errors.Join(failed...)
}

func (a *Audit) read(ctx context.Context, to int64) error {
	conn, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return Read(ctx, conn, a.Recorded, to)
}

// kept checks the leases that were always kept alive.
func (a *Audit) kept(ctx context.Context) error {
	for _, id := range a.Run.Keepers {
		r, err := a.Replicas[0].TimeToLive(ctx, id, clientv3.WithAttachedKeys())
		if err != nil {
			return err
		}
		if r.TTL <= 0 || len(r.Keys) != 1 {
			return fmt.Errorf("lease %d was always kept alive and has TTL %d and keys %q", id, r.TTL, r.Keys)
		}
	}
	return nil
}

// ending returns the leases that were left to expire.
func (a *Audit) ending() []history.Lease {
	return slices.DeleteFunc(a.Run.Journal.Leases(), func(l history.Lease) bool {
		return slices.Contains(a.Run.Keepers, clientv3.LeaseID(l.ID))
	})
}

// leasesEnd waits until the keys of all leases that were left to expire are gone.
func (a *Audit) leasesEnd(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		r, err := a.Replicas[0].Get(ctx, history.LeasePrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || r.Count == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d keys of leases that were left to expire still exist", r.Count)
		}
	}
}

// revision returns the revision of an idle store, which must be the same on every replica. No client renews the kept
// leases any more, so it must take less than their TTL.
func (a *Audit) revision(ctx context.Context) (revision int64, err error) {
	for i, c := range a.Replicas {
		got, err := c.Get(ctx, "nothing")
		if err != nil {
			return 0, err
		}
		if i > 0 && got.Header.Revision != revision {
			return 0, fmt.Errorf("replica %d is at revision %d, the first one at %d", i+1, got.Header.Revision,
				revision)
		}
		revision = got.Header.Revision
	}
	return revision, nil
}
