package patroni

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/test/support/hosts"
)

func TestFailover(t *testing.T) {
	c := newCluster(t)
	l := start(c)
	l.flows()
	old := c.until("a healthy cluster", healthy)

	l.phase("the primary was killed", func() {
		c.kill(c.node(old.with("leader")))
		now := c.until("a standby promoted", func(ms members) bool {
			return ms.with("leader") != "" &&
				ms.with("leader") != old.with("leader")
		})
		if now.with("leader") != old.with("sync_standby") {
			t.Errorf("%s was promoted, the synchronous standby was %s", now.with("leader"), old.with("sync_standby"))
		}
	})
	l.phase("the killed node came back", func() {
		c.ok(c.node(old.with("leader")).Start())
		now := c.until("all nodes healthy", healthy)
		if now.with("leader") == old.with("leader") {
			t.Error("the killed primary is the primary again")
		}
	})
	l.phase("the primary was moved", func() {
		before := c.until("a healthy cluster", healthy)
		l.Log(c.patronictl(c.nodes[0], "switchover --force --leader "+before.with("leader")+" --candidate "+
			before.with("sync_standby")))
		now := c.until("all nodes healthy", func(ms members) bool {
			return healthy(ms) &&
				ms.with("leader") != before.with("leader")
		})
		if now.with("leader") != before.with("sync_standby") {
			t.Errorf("%s is the primary, want %s", now.with("leader"), before.with("sync_standby"))
		}
	})
	l.phase("Patroni's store was killed and came back", func() {
		before := c.until("a healthy cluster", healthy)
		c.kill(c.store)
		c.storeMissed(c.node(before.with("leader")))
		c.ok(c.store.Start())
		c.storeInUse()
		if now := c.until("all nodes healthy", healthy); now[0].Timeline != before[0].Timeline ||
			now.with("leader") != before.with("leader") {
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

func (c *cluster) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// storeMissed waits until the leader has given up on its store, after retryTimeout, and leads with the other nodes'
// consent.
func (c *cluster) storeMissed(leader *hosts.Host) {
	c.Helper()
	eventually(c, "leader without its store", func() error {
		var says struct {
			Failsafe bool `json:"failsafe_mode_is_active"`
			Role     string
		}
		if err := getJSON(c.Context(), "http://"+leader.Address(restPort)+"/patroni", &says); err != nil ||
			says.Failsafe {
			return err
		}
		return fmt.Errorf("%s says %+v", leader.Name, says)
	})
}

// storeInUse waits until Patroni has written to its store, and checks that its leader's key is under a live lease.
func (c *cluster) storeInUse() {
	c.Helper()
	const status, leader = "/service/" + scope + "/status", "/service/" + scope + "/leader"
	store := c.client(c.store)
	ctx, cancel := context.WithTimeout(c.Context(), stateTimeout)
	defer cancel()
	r, err := store.Get(ctx, status)
	c.ok(err)
	written := <-store.Watch(ctx, status, clientv3.WithRev(r.Header.Revision+1))
	c.ok(written.Err())
	if len(written.Events) == 0 {
		c.Fatal("Patroni does not write to its store")
	}
	r, err = store.Get(ctx, leader)
	c.ok(err)
	if len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 {
		c.Fatalf("the leader's key in Patroni's store has no lease: %v", r.Kvs)
	}
	lease, err := store.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease), clientv3.WithAttachedKeys())
	c.ok(err)
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
