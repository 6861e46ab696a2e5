package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/faults/cluster/audit"
	"github.com/sqlstore/sqlstore/test/faults/cluster/load"
	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	// warm is how many writes of each replica's own clients must be acknowledged before a fault, and again after it.
	warm = 6
	// recoveryTime limits how long that may take after a fault.
	recoveryTime = 2 * time.Minute
	auditTime    = 5 * time.Minute
	// readBound is the replicas' setting, the default of --datastore-max-staleness.
	readBound = 2 * time.Second
	// compaction is the time between two compactions.
	compaction = 20 * time.Second
	// overlap is the time between the beginnings of two faults.
	overlap = 2 * time.Second
)

// stage is the cluster under load in one round.
type stage struct {
	*rig.Cluster
	*load.Run
	report   *report
	clients  []*clientv3.Client
	from     int64 // the revision before the round
	recorded *history.Recorded
	others   int // further faults at the same time
	stop     context.CancelFunc
	quiet    chan struct{} // closed when compactions have ended
}

func newStage(c *rig.Cluster, r *report) *stage {
	s := &stage{Cluster: c, report: r}
	var servers []load.Replica
	for _, h := range c.Replicas {
		s.clients = append(s.clients, c.Client(h))
		servers = append(servers, load.Replica{Name: h.Name, Endpoint: rig.Endpoint(h)})
	}
	s.from = s.first()
	s.recorded = history.NewRecorded(s.from)
	c.OK(s.record(c.Context(), s.from))
	s.Run = load.Start(c, servers, s.from, rpctypes.ErrNoSpace) // of a full disk
	s.flows()
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.quiet = stop, make(chan struct{})
	c.Cleanup(stop)
	go s.compact(ctx)
	return s
}

// first waits until every replica answers, and returns the revision.
func (s *stage) first() (revision int64) {
	s.Helper()
	for i, c := range s.clients {
		rig.Eventually(s, "answer of "+s.Replicas[i].Name, func() error {
			ctx, cancel := context.WithTimeout(s.Context(), readBound+recoveryTime)
			defer cancel()
			r, err := c.Get(ctx, "nothing")
			if err == nil {
				revision = max(revision, r.Header.Revision)
			}
			return err
		})
	}
	return revision
}

// flows waits until all replicas acknowledge writes, and returns how long that took.
func (s *stage) flows() time.Duration {
	s.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTime)
	defer cancel()
	if err := s.WaitWrites(ctx, warm); err != nil {
		s.Fatalf("no recovery within %v: %v; Patroni's nodes report %+v", recoveryTime, err, s.Cluster.Members())
	}
	return time.Since(began)
}

// turn makes one or two things fail and recover.
func (s *stage) turn(dealer *schedule) {
	s.Helper()
	turn := dealer.next()
	var faults []fault
	for _, k := range turn {
		faults = append(faults, k.plan(s, dealer.Rand))
	}
	s.others = len(turn) - 1
	began := s.Journal.Now()
	var entries []*entry
	var healings []<-chan healing
	for i, f := range faults {
		e := &entry{kind: turn[i].name, detail: f.detail, began: time.Now()}
		if len(turn) > 1 {
			e.with = turn[1-i].name
		}
		entries = append(entries, e)
		s.report.add(e)
		s.Logf("%v: %s (%s) for %v", s.Journal.Now().Round(time.Millisecond), e.kind, e.detail,
			f.holds.Round(time.Millisecond))
		s.do(e, "inject", f.inject)
		healings = append(healings, s.healInTime(f, e.began))
		if i < len(faults)-1 {
			s.pause(overlap)
		}
	}
	for i, e := range entries {
		h := <-healings[i]
		s.do(e, "heal", func() error { return h.err })
		e.held = h.held
	}
	healed := s.Journal.Now()
	recovered := s.flows()
	s.Until("all nodes healthy", rig.Healthy)
	healthy := s.Journal.Now() - healed
	s.flows()
	for _, e := range entries {
		e.recovered, e.healthy = recovered, healthy
		e.noWrite = s.outage(began, s.Journal.Now())
	}
	s.Logf("%v: recovered after %s, nodes healthy after %s, no write for %s", s.Journal.Now().Round(time.Millisecond),
		seconds(recovered), seconds(healthy), seconds(entries[0].noWrite))
}

func (s *stage) do(e *entry, what string, step func() error) {
	s.Helper()
	if err := step(); err != nil {
		e.failed = err.Error()
		s.Fatalf("%s '%s' (%s): %v", what, e.kind, e.detail, err)
	}
}

// healing is the end of a fault.
type healing struct {
	held time.Duration
	err  error
}

// healInTime ends a fault when its time is up, although it may take longer to inject another one.
func (s *stage) healInTime(f fault, began time.Time) <-chan healing {
	healed := make(chan healing, 1)
	go func() {
		var err error
		if f.heal != nil {
			select {
			case <-time.After(time.Until(began.Add(f.holds))):
				err = f.heal()
			case <-s.Context().Done():
				err = s.Context().Err()
			}
		}
		healed <- healing{held: time.Since(began), err: err}
	}()
	return healed
}

// pause waits while a fault lasts.
func (s *stage) pause(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// outage returns the longest time without an acknowledged write of any client that ended after the fault began.
func (s *stage) outage(began, until time.Duration) time.Duration {
	var ends []time.Duration
	s.Journal.Since(began-time.Minute, func(o history.Op) {
		if o.Outcome == history.Done && o.Kind.Writes() {
			ends = append(ends, o.End)
		}
	})
	slices.Sort(ends)
	longest, last := time.Duration(0), began
	for _, end := range ends {
		if end > began {
			longest = max(longest, end-last)
		}
		last = max(last, end)
	}
	return max(longest, until-last)
}

// restart stops and starts one replica after another, as a rolling upgrade does.
func (s *stage) restart() error {
	for i, h := range s.Replicas {
		if err := end(h, "TERM"); err != nil {
			return err
		}
		if err := h.Start(); err != nil {
			return err
		}
		// The next one follows once the replica serves, which another fault may delay.
		ctx, cancel := context.WithTimeout(s.Context(), recoveryTime)
		err := s.WaitWrites(ctx, warm, s.Replicas[i].Name)
		cancel()
		if err != nil {
			return fmt.Errorf("%s after its restart: %w", h.Name, err)
		}
	}
	return nil
}

// compact compacts what every watch has seen, from time to time, through any replica.
func (s *stage) compact(ctx context.Context) {
	defer close(s.quiet)
	tick := time.NewTicker(compaction)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		revision := s.Compactable()
		limited, cancel := context.WithTimeout(ctx, compaction)
		err := s.record(limited, revision)
		if err == nil {
			_, err = s.clients[i%len(s.clients)].Compact(limited, revision)
		}
		cancel()
		if err == nil {
			s.report.compacted()
		}
	}
}

// record reads the history up to an acknowledged revision from the server that accepts writes.
func (s *stage) record(ctx context.Context, revision int64) error {
	conn, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return audit.Read(ctx, conn, s.recorded, revision)
}

func (s *stage) open(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.DSN("sqlstore"))
}

// finish ends the round: it stops the load and checks everything.
func (s *stage) finish() {
	s.Helper()
	s.stop()
	<-s.quiet
	s.Run.Stop()
	ctx, cancel := context.WithTimeout(s.Context(), auditTime)
	defer cancel()
	began := time.Now()
	a := audit.Audit{
		Run: s.Run, Replicas: s.clients, Connect: s.open, Recorded: s.recorded, From: s.from, Stale: readBound,
	}
	checked, err := a.Check(ctx)
	if err != nil {
		s.Error(err)
	}
	s.StopWatches()
	for _, id := range s.Keepers { // so that they do not expire in the next round
		_, err := s.clients[0].Revoke(ctx, id)
		s.OK(err)
	}
	s.report.checked(checked)
	s.Logf("%v, in %.1f s", checked, time.Since(began).Seconds())
	if checked.Late != nil {
		s.report.note("only the staleness bound allows this: %v", checked.Late)
	}
}
