package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/test/cluster/history"
	"github.com/sqlstore/sqlstore/test/cluster/load"
	"github.com/sqlstore/sqlstore/test/cluster/rig"
)

const (
	replicas = 3
	// warm is how many writes each replica has acknowledged before a fault, and again after it.
	warm = 25
	// recoveryTimeout limits what a test waits for; the table shows the actual time.
	recoveryTimeout = time.Minute
	linearTimeout   = time.Minute
)

// stage is a cluster under load.
type stage struct {
	testing.TB
	*rig.Cluster
	*load.Run
	serving *rig.Postgres // that currently accepts writes
	from    int64         // the revision before the load
	stale   time.Duration // how old an answer may be
	began   time.Duration // of the fault
	healed  time.Duration // end of the fault
}

// set starts a cluster over an empty database, under load.
func set(tb testing.TB, d *rig.Databases) *stage {
	tb.Helper()
	return setWith(tb, d, rig.Options{})
}

func setWith(tb testing.TB, d *rig.Databases, o rig.Options) *stage {
	tb.Helper()
	s := &stage{TB: tb, Cluster: d.NewCluster(tb, replicas, o), serving: d.Primary}
	s.load(1)
	return s
}

// load puts the cluster under a new load, whose journal begins after a revision.
func (s *stage) load(from int64) {
	s.Helper()
	var servers []load.Replica
	for _, r := range s.Replicas {
		servers = append(servers, load.Replica{Name: r.Name, Endpoint: r.Endpoint()})
	}
	s.from, s.Run = from, load.Start(s, servers, from)
	s.flows()
	s.began = s.Journal.Now()
}

// flows waits until all replicas, or those with the given names, acknowledge writes.
func (s *stage) flows(names ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	s.ok(s.WaitWrites(ctx, warm, names...))
}

// ok ends the test if a step failed.
func (s *stage) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// sustain keeps a fault up for a while.
func (s *stage) sustain(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// heal ends a fault.
func (s *stage) heal(step func() error) {
	s.Helper()
	s.healed = s.Journal.Now()
	s.ok(step())
}

// finish waits until all replicas serve again, ends the load, checks everything, and records the fault's outages.
func (s *stage) finish(fault string) []history.Outage {
	s.Helper()
	s.flows()
	until := s.Journal.Now()
	s.Stop()
	outages := history.Outages(s.Journal.Ops(), s.began, s.healed, until)
	report(history.Row{Fault: fault, Outages: outages})
	s.verify()
	s.StopWatches()
	return outages
}

// verify compares what clients saw with the database's contents, after the load has stopped.
func (s *stage) verify() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	s.kept(ctx)
	s.leasesEnd(ctx)
	to := s.revision(ctx)
	base, events, err := s.history(ctx, s.from, to)
	s.ok(err)
	check := func(what string, err error) {
		s.Helper()
		if err != nil {
			s.Errorf("%s: %v", what, err)
		}
	}
	check("answers that no correct server gives", s.Err())
	check("revisions", history.Order(base, events, s.from, to))
	ops := history.AllowStale(s.Journal.Ops(), s.stale)
	fate, err := history.Writes(ops, events)
	check("writes", err)
	check("reads", history.Reads(base, ops, events))
	if err == nil {
		check("linearizability", history.Linearizable(base, ops, fate, linearTimeout))
	}
	for _, w := range s.Watches {
		got, want, seen := w.Wait(ctx, events)
		check("watch of "+w.Name, history.Watch(got, want))
		if w.Prefix == "" {
			check("leases, by the watch of "+w.Name, history.Leases(s.ending(), events, seen, true))
		}
	}
	done := 0
	for _, o := range ops {
		if o.Outcome != history.Unknown {
			done++
		}
	}
	s.Logf("checked %d requests, %d of them answered, %d writes, revisions %d to %d, %d watches, %d leases",
		len(ops), done, len(fate), s.from, to, len(s.Watches), len(s.Journal.Leases()))
}

// kept checks the leases that were always kept alive.
func (s *stage) kept(ctx context.Context) {
	s.Helper()
	c := s.client(s.Replicas[0])
	for _, id := range s.Keepers {
		r, err := c.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
		s.ok(err)
		if r.TTL <= 0 || len(r.Keys) != 1 {
			s.Errorf("lease %d was always kept alive and has TTL %d and keys %q", id, r.TTL, r.Keys)
		}
	}
}

// ending returns the leases that were left to expire.
func (s *stage) ending() []history.Lease {
	return slices.DeleteFunc(s.Journal.Leases(), func(l history.Lease) bool {
		return slices.Contains(s.Keepers,
			clientv3.LeaseID(l.ID))
	})
}

// leasesEnd waits until the keys of all leases that were left to expire are gone.
func (s *stage) leasesEnd(ctx context.Context) {
	s.Helper()
	c := s.client(s.Replicas[0])
	for {
		r, err := c.Get(ctx, history.LeasePrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		s.ok(err)
		if r.Count == 0 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			s.Fatalf("%d keys of leases that were left to expire still exist", r.Count)
		}
	}
}

// revision returns the revision of an idle store, which must be the same on every replica. No client renews the kept
// leases any more, so it must take less than their TTL.
func (s *stage) revision(ctx context.Context) int64 {
	s.Helper()
	var revision int64
	for i, r := range s.Replicas {
		got, err := s.client(r).Get(ctx, "nothing")
		s.ok(err)
		if i > 0 && got.Header.Revision != revision {
			s.Errorf("%s is at revision %d, %s at %d", r.Name, got.Header.Revision, s.Replicas[0].Name, revision)
		}
		revision = got.Header.Revision
	}
	return revision
}

// client connects to one replica.
func (s *stage) client(r *rig.Replica) *clientv3.Client {
	s.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Endpoint()}, Logger: zap.NewNop()})
	s.ok(err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// history reads the database's rows: those after from up to to, and the content of the keys at from.
func (s *stage) history(ctx context.Context, from, to int64) (history.Base, []history.Event, error) {
	conn, err := s.serving.Connect(ctx, s.Database)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT resource_version, ordinal, key, deleted, create_revision, version, lease,
			previous_version, value
		FROM object_versions WHERE resource_version <= $1 ORDER BY resource_version, ordinal`, to)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	base, events := history.Base{}, []history.Event(nil)
	newest := map[string]int64{}
	for last, next := int64(0), int64(0); rows.Next(); {
		var e history.Event
		var ordinal, previous int64
		var key, value []byte
		if err := rows.Scan(&e.Revision, &ordinal, &key, &e.Deleted, &e.Create, &e.Version, &e.Lease, &previous,
			&value); err != nil {
			return nil, nil, err
		}
		e.Key, e.Value = string(key), string(value)
		if e.Revision != last {
			last, next = e.Revision, 0
		}
		if ordinal != next {
			return nil, nil, fmt.Errorf("revision %d has row %d, want row %d", e.Revision, ordinal, next)
		}
		next++
		if previous != newest[e.Key] {
			return nil, nil, fmt.Errorf("%+v has the previous version %d, its key's newest is %d", e, previous,
				newest[e.Key])
		}
		newest[e.Key] = e.Revision
		if e.Deleted {
			newest[e.Key] = 0
		}
		if e.Revision <= from {
			base[e.Key] = e
		} else {
			events = append(events, e)
		}
	}
	return base, events, rows.Err()
}
