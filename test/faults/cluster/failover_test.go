package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/test/faults/cluster/load"
	"github.com/sqlstore/sqlstore/test/faults/cluster/rig"
	"github.com/sqlstore/sqlstore/test/support/history"
)

const lostHistory = "HISTORY WAS LOST"

// When a primary dies, its synchronous standby has all acknowledged writes, and the replicas find it on their own.
func TestFailover(t *testing.T) {
	s := set(t, rig.NewDatabases(t))
	s.failOver()
	s.finish("primary is killed, its synchronous standby promoted")
	for _, r := range s.Replicas {
		if strings.Contains(r.Log("all"), lostHistory) {
			t.Errorf("%s says that history was lost", r.Name)
		}
	}
}

// failOver kills the primary and promotes the standby.
func (s *stage) failOver() {
	s.Helper()
	_, err := s.Primary.End("KILL")
	s.ok(err)
	s.heal(s.Standby.Promote)
	s.serving = s.Standby
}

// An asynchronous standby takes over without some acknowledged writes.
func TestLostHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		// frozen: one replica misses the failover until the others have written past the lost revisions. restarted: the
		// others start anew and know nothing of the lost writes. fresh: the frozen one has just started, and saw the
		// lost writes only then.
		frozen, restarted, fresh bool
	}{
		{"all replicas see it", false, false, false},
		{"one is frozen, the others continue", true, false, false},
		{"one is frozen, the others are new", true, true, false},
		{"one has just started and is frozen, the others are new", true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := set(t, rig.NewDatabases(t))
			l := s.lose(c.frozen, c.restarted, c.fresh)
			report(history.Row{Fault: "standby without the last writes is promoted: " + c.name, Outages: s.back(l)})
			s.noticed(l, c.restarted)
			s.agree()
			s.load(s.revision(t.Context())) // later writes are intact
			s.flows()
			s.Stop()
			s.verify()
			s.StopWatches()
			s.repair(l)
		})
	}
}

// loss is the state before the loss of history.
type loss struct {
	run   *load.Run // whose watches saw the lost writes
	last  int64     // the newest revision that was acknowledged
	term  uint64
	fresh clientv3.WatchChan // of a replica that was started after that, nil without one
	// when the primary was killed, and when it was replaced and all replicas were back
	killed, healed time.Time
}

// lose writes what the standby does not receive, and fails over to it.
func (s *stage) lose(frozen, restarted, fresh bool) loss {
	s.Helper()
	s.flows()
	s.Stop()
	s.verify()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	for _, id := range s.Keepers { // their clients have stopped
		_, err := s.client(s.Replicas[0]).Revoke(ctx, id)
		s.ok(err)
	}
	s.ok(s.Synchronous(false))
	s.ok(s.Primary.Until("SELECT bool_and(replay_lsn = pg_current_wal_lsn()) FROM pg_stat_replication"))
	common := s.revision(ctx)
	_, before, err := s.history(ctx, 1, common)
	s.ok(err)
	s.ok(s.Standby.CutOff())
	l := loss{run: s.Run, term: s.term(ctx, s.Replicas[0])}
	for i := range 60 {
		l.last = s.put(ctx, s.Replicas[i%replicas], fmt.Sprintf("lost/%d", i))
	}
	for _, w := range l.run.Watches[:replicas] { // every replica has seen everything
		s.ok(w.WaitRevision(ctx, l.last))
	}

	odd, others := s.Replicas[replicas-1], s.Replicas[:replicas-1]
	if fresh {
		s.restart(odd, "TERM")
		if got := s.revision(ctx); got != l.last {
			s.Fatalf("the replicas are at revision %d, the last acknowledged one is %d", got, l.last)
		}
		l.fresh = s.client(odd).Watch(s.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(l.last+1),
			clientv3.WithCreatedNotify())
		if resp := <-l.fresh; !resp.Created {
			s.Fatalf("a watch on %s began with %+v", odd.Name, resp)
		}
	}
	if frozen {
		s.ok(odd.Signal("STOP"))
	}
	if restarted {
		for _, r := range others {
			_, err := r.End("KILL")
			s.ok(err)
		}
	}
	l.killed = time.Now()
	_, err = s.Primary.End("KILL")
	s.ok(err)
	s.ok(s.Standby.Rejoin())
	s.ok(s.Standby.Promote())
	s.serving = s.Standby
	if restarted {
		for _, r := range others {
			s.ok(r.Start())
			s.ok(r.Ready())
		}
	}
	if frozen {
		for rev, i := int64(0), 0; rev < l.last+20; i++ {
			rev = s.put(ctx, others[i%len(others)], fmt.Sprintf("new/%d", i))
		}
		s.ok(odd.Signal("CONT"))
	}
	l.healed = time.Now()

	_, after, err := s.history(ctx, 1, common)
	s.ok(err)
	if err := history.Watch(after, before); err != nil {
		s.Errorf("history that the standby had, up to revision %d: %v", common, err)
	}
	_, after, err = s.history(ctx, common, l.last)
	s.ok(err)
	for _, e := range after {
		if strings.HasPrefix(e.Key, "lost/") {
			s.Fatalf("nothing was lost, so that this test proves nothing: %+v", e)
		}
	}
	return l
}

// back writes through each replica and returns how long that took to succeed.
func (s *stage) back(l loss) []history.Outage {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	var outages []history.Outage
	for _, r := range s.Replicas {
		s.put(ctx, r, "back/"+r.Name)
		outages = append(outages, history.Outage{
			Replica: r.Name, Writes: time.Since(l.killed),
			After: time.Since(l.healed),
		})
	}
	return outages
}

// put writes one key through one replica, which may have to find its database first.
func (s *stage) put(ctx context.Context, r *rig.Replica, key string) int64 {
	s.Helper()
	c := s.client(r)
	for {
		resp, err := c.Put(ctx, key, "v")
		if err == nil {
			return resp.Header.Revision
		}
		if ctx.Err() != nil || !errors.Is(err, rpctypes.ErrNoLeader) && !load.Outage(err) {
			s.Fatalf("put %s: %v", key, err)
		}
	}
}

// term returns the raft term of a replica after a linearizable read. Without the read, its status may still have an
// older one, which another replica has raised.
func (s *stage) term(ctx context.Context, r *rig.Replica) uint64 {
	s.Helper()
	read, err := s.client(r).Get(ctx, "term")
	s.ok(err)
	status, err := s.client(r).Status(ctx, r.Endpoint())
	s.ok(err)
	if status.RaftTerm < read.Header.RaftTerm {
		s.Errorf("%s reports the raft term %d, and reported %d before", r.Name, status.RaftTerm, read.Header.RaftTerm)
	}
	return status.RaftTerm
}

// noticed checks that the replicas have noticed the loss: all, or the only one that can.
func (s *stage) noticed(l loss, restarted bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	first := 0
	if restarted {
		first = replicas - 1
	}
	for i := first; i < replicas; i++ {
		if l.fresh != nil {
			s.endsCompacted(ctx, l)
		} else {
			revision, err := l.run.Watches[i].WaitCompacted(ctx)
			s.ok(err)
			s.Logf("the watch of %s ended: revision %d is compacted", l.run.Watches[i].Name, revision)
		}
		s.ok(s.Replicas[i].WaitLog(lostHistory))
	}
	s.ready()
	term := s.term(ctx, s.Replicas[0])
	if term <= l.term {
		s.Errorf("the raft term is %d, before the loss of history it was %d", term, l.term)
	}
	for _, r := range s.Replicas[1:] {
		if got := s.term(ctx, r); got != term {
			s.Errorf("the raft term of %s is %d, that of %s %d", r.Name, got, s.Replicas[0].Name, term)
		}
	}
}

// agree checks that all replicas show the same objects, and no lost ones.
func (s *stage) agree() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	revision := s.revision(ctx)
	var first *clientv3.GetResponse
	for _, r := range s.Replicas {
		got, err := s.client(r).Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
		s.ok(err)
		lost := 0
		for _, kv := range got.Kvs {
			if strings.HasPrefix(string(kv.Key), "lost/") {
				lost++
			}
		}
		if lost > 0 {
			s.Errorf("%s still shows %d lost keys", r.Name, lost)
		}
		if first == nil {
			first = got
		}
		if !slices.EqualFunc(got.Kvs, first.Kvs, func(a, b *mvccpb.KeyValue) bool { return proto.Equal(a, b) }) {
			s.Errorf("%s and %s show different objects at revision %d: %d and %d of them", r.Name, s.Replicas[0].Name,
				revision, len(got.Kvs), len(first.Kvs))
		}
	}
}

// endsCompacted checks the watch of the new replica: it must not continue with what others wrote after the lost
// revisions, as if that followed them.
func (s *stage) endsCompacted(ctx context.Context, l loss) {
	s.Helper()
	select {
	case resp := <-l.fresh:
		if resp.CompactRevision == 0 {
			s.Errorf("a watch from the lost revision %d continues: %d events, the first at revision %d, error %v",
				l.last+1, len(resp.Events), firstRevision(resp), resp.Err())
		}
	case <-ctx.Done():
		s.Error("a watch from a lost revision does not end")
	}
}

func firstRevision(resp clientv3.WatchResponse) int64 {
	if len(resp.Events) == 0 {
		return 0
	}
	return resp.Events[0].Kv.ModRevision
}

// repair raises the revision above everything that clients have seen. They get an error, and list again.
func (s *stage) repair(l loss) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	bumped := max(l.last, s.revision(ctx)) + 1000
	out, status := s.Cluster.Run(s, "repair", "--bump-revision", fmt.Sprint(bumped), "--yes")
	s.Logf("repair: %s", out)
	if status != 0 {
		s.Fatalf("repair exited with status %d", status)
	}
	for _, w := range l.run.Watches {
		if _, err := w.WaitCompacted(ctx); err != nil {
			s.Error(err)
		}
	}
	for _, r := range s.Replicas {
		c := s.client(r)
		now, err := c.Get(ctx, "k/", clientv3.WithPrefix())
		s.ok(err)
		if now.Header.Revision < bumped {
			s.Errorf("%s is at revision %d after the repair, want %d or more", r.Name, now.Header.Revision, bumped)
		}
		for _, rev := range []int64{l.last, l.last + 1, bumped - 1} {
			if _, err := c.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(rev)); !errors.Is(err,
				rpctypes.ErrCompacted) {
				s.Errorf("%s: a list at revision %d ended with %v, want %v", r.Name, rev, err, rpctypes.ErrCompacted)
			}
			resp, ok := <-c.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(rev))
			if !ok || !errors.Is(resp.Err(), rpctypes.ErrCompacted) || resp.CompactRevision < bumped {
				s.Errorf("%s: a watch from revision %d ended with %v, compact revision %d, want %v", r.Name, rev,
					resp.Err(), resp.CompactRevision, rpctypes.ErrCompacted)
			}
		}
		// A watch can continue from a new list.
		resp, ok := <-c.Watch(clientv3.WithRequireLeader(ctx), "k/again", clientv3.WithRev(now.Header.Revision+1),
			clientv3.WithCreatedNotify())
		if !ok || resp.Err() != nil {
			s.Errorf("%s: the watch after a new list: %v", r.Name, resp.Err())
		}
	}
	s.put(ctx, s.Replicas[0], "k/again")
}
