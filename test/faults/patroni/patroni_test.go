package patroni

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// cluster adds what only this package's tests need.
type cluster struct{ *rig.Cluster }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{rig.New(t, rig.Options{})}
}

func TestFailover(t *testing.T) {
	c := newCluster(t)
	l := start(c)
	l.flows()
	old := c.Until("a healthy cluster", rig.Healthy)

	l.phase("the primary was killed", func() {
		c.Kill(c.Node(old.With("leader")))
		now := c.Until("a standby promoted", func(ms rig.Members) bool {
			return ms.With("leader") != "" &&
				ms.With("leader") != old.With("leader")
		})
		if now.With("leader") != old.With("sync_standby") {
			t.Errorf("%s was promoted, the synchronous standby was %s", now.With("leader"), old.With("sync_standby"))
		}
	})
	l.phase("the killed node came back", func() {
		c.OK(c.Node(old.With("leader")).Start())
		now := c.Until("all nodes healthy", rig.Healthy)
		if now.With("leader") == old.With("leader") {
			t.Error("the killed primary is the primary again")
		}
	})
	l.phase("the primary was moved", func() {
		before := c.Until("a healthy cluster", rig.Healthy)
		l.Log(c.Patronictl(c.Nodes[0], "switchover --force --leader "+before.With("leader")+" --candidate "+
			before.With("sync_standby")))
		now := c.Until("all nodes healthy", func(ms rig.Members) bool {
			return rig.Healthy(ms) &&
				ms.With("leader") != before.With("leader")
		})
		if now.With("leader") != before.With("sync_standby") {
			t.Errorf("%s is the primary, want %s", now.With("leader"), before.With("sync_standby"))
		}
	})
	l.phase("Patroni's store was killed and came back", func() {
		before := c.Until("a healthy cluster", rig.Healthy)
		c.Kill(c.Store)
		c.storeMissed(c.Node(before.With("leader")))
		c.OK(c.Store.Start())
		c.storeInUse()
		if now := c.Until("all nodes healthy", rig.Healthy); now[0].Timeline != before[0].Timeline ||
			now.With("leader") != before.With("leader") {
			t.Errorf("the cluster was %+v and is %+v", before, now)
		}
	})
	l.verify(c)
}

// phase does something to the cluster, waits until all replicas serve again, and reports the time without writes.
func (l *load) phase(what string, happens func()) {
	l.Helper()
	began := time.Now()
	happens()
	over := time.Now()
	l.flows()
	ended := time.Now()
	l.Logf("%s: done after %.1f s; %s; a plain connection was without a commit for %.1f s",
		what, over.Sub(began).Seconds(), l.outage(began, ended), l.control.outage(began, ended).Seconds())
}

// storeMissed waits until the leader has given up on its store, after retryTimeout, and leads with the other nodes'
// consent.
func (c *cluster) storeMissed(leader *hosts.Host) {
	c.Helper()
	rig.Eventually(c, "leader without its store", func() error {
		var says struct {
			Failsafe bool `json:"failsafe_mode_is_active"`
			Role     string
		}
		if err := rig.GetJSON(c.Context(), rig.REST(leader)+"/patroni", &says); err != nil ||
			says.Failsafe {
			return err
		}
		return fmt.Errorf("%s says %+v", leader.Name, says)
	})
}

// storeInUse waits until Patroni has written to its store, and checks that its leader's key is under a live lease.
func (c *cluster) storeInUse() {
	c.Helper()
	const status, leader = "/service/" + rig.Scope + "/status", "/service/" + rig.Scope + "/leader"
	store := c.Client(c.Store)
	ctx, cancel := context.WithTimeout(c.Context(), rig.StateTimeout)
	defer cancel()
	r, err := store.Get(ctx, status)
	c.OK(err)
	written := <-store.Watch(ctx, status, clientv3.WithRev(r.Header.Revision+1))
	c.OK(written.Err())
	if len(written.Events) == 0 {
		c.Fatal("Patroni does not write to its store")
	}
	r, err = store.Get(ctx, leader)
	c.OK(err)
	if len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 {
		c.Fatalf("the leader's key in Patroni's store has no lease: %v", r.Kvs)
	}
	lease, err := store.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease), clientv3.WithAttachedKeys())
	c.OK(err)
	if lease.TTL <= 0 || !slices.ContainsFunc(lease.Keys, func(k []byte) bool { return string(k) == leader }) {
		c.Errorf("the lease of Patroni's leader has %d s left and the keys %q", lease.TTL, lease.Keys)
	}
}

// A comparison that cannot fail proves nothing.
func TestComparisonNotices(t *testing.T) {
	puts := []put{{key: "a", value: "1", revision: 6}, {key: "b", value: "2"}, {key: "a", value: "3", revision: 8}}
	right := []event{{"a", "1", 6}, {"b", "2", 7}, {"a", "3", 8}}
	if err := compare(5, puts, right); err != nil {
		t.Error(err)
	}
	for name, wrong := range map[string][]event{
		"lost at the end":  right[:2],
		"lost":             {{"b", "2", 6}, {"a", "3", 7}},
		"gap":              {right[0], right[2]},
		"twice":            append(slices.Clone(right), event{"b", "2", 9}),
		"another revision": {{"b", "2", 6}, {"a", "1", 7}, right[2]},
		"without a writer": append(slices.Clone(right), event{"b", "4", 9}),
		"another key":      {{"b", "1", 6}, right[1], right[2]},
	} {
		if compare(5, puts, wrong) == nil {
			t.Errorf("%s: the comparison passes", name)
		}
		if same(wrong, right) == nil {
			t.Errorf("%s: the comparison passes for a watch", name)
		}
	}
}
