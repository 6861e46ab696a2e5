package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/test/faults/cluster/audit"
	"github.com/sqlstore/sqlstore/test/faults/cluster/load"
	"github.com/sqlstore/sqlstore/test/faults/cluster/rig"
	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	replicas = 3
	// warm is how many writes each replica has acknowledged before a fault, and again after it.
	warm = 25
	// recoveryTimeout limits what a test waits for; the table shows the actual time.
	recoveryTimeout = time.Minute
)

// stage is a cluster under load.
type stage struct {
	testing.TB
	*rig.Cluster
	*load.Run
	serving *rig.Postgres // that currently accepts writes
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
	s.Run = load.Start(s, servers, from)
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
	a := audit.Audit{
		Run: s.Run, From: s.From, Stale: s.stale, Recorded: history.NewRecorded(s.From),
		Connect: func(ctx context.Context) (*pgx.Conn, error) { return s.serving.Connect(ctx, s.Database) },
	}
	for _, r := range s.Replicas {
		a.Replicas = append(a.Replicas, s.client(r))
	}
	checked, err := a.Check(ctx)
	if err != nil {
		s.Error(err)
	}
	s.Logf("%v", checked)
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
	r := history.NewRecorded(from)
	err = audit.Read(ctx, conn, r, to)
	return r.Base, r.Events, err
}
