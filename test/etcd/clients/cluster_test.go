package clients

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/support/datastore"
)

// To etcdctl, three replicas over one database look like an etcd with three members. When the leader is killed, another
// replica takes over.
func TestCluster(t *testing.T) {
	shapes := map[string][]string{}
	t.Run("etcd", func(t *testing.T) { shapes["etcd"] = cluster(t, servers.EtcdCluster(t, 3, statusFlags...)) })
	t.Run("target", func(t *testing.T) { shapes["target"] = cluster(t, servers.Replicas(t, 3, statusFlags...)) })
	if !slices.Equal(shapes["etcd"], shapes["target"]) {
		t.Errorf("status and members of the target have the fields\n%q, want\n%q", shapes["target"], shapes["etcd"])
	}
}

// clusterStatus is what `endpoint status --cluster -w json` prints for each member.
type clusterStatus struct {
	Endpoint string
	Status   struct {
		Header struct {
			MemberID uint64 `json:"member_id"`
			Revision int64
		}
		Leader  uint64
		Version string
	}
}

func cluster(t *testing.T, all []*launch.Server) (shape []string) {
	endpoints := strings.Join(datastore.Endpoints(all), ",")
	ctl(t, endpoints, "", "put", "a", "1").must(t)
	for _, s := range all {
		members := listed(t, s, len(all))
		var names []string
		for _, m := range members {
			f := strings.Split(m, ", ")
			i := slices.IndexFunc(all, func(s *launch.Server) bool { return s.ClientURL() == f[4] })
			if f[1] != "started" || i < 0 || f[5] != "false" {
				t.Errorf("member %q", m)
			}
			names = append(names, f[2])
		}
		slices.Sort(names)
		if want := []string{"replica-1", "replica-2", "replica-3"}; !slices.Equal(names, want) {
			t.Errorf("members %q, want %q", names, want)
		}
		health := ctl(t, s.Endpoint(), "", "endpoint", "health", "--cluster").must(t)
		for _, other := range all {
			if !strings.Contains(health, other.ClientURL()+" is healthy") {
				t.Errorf("endpoint health --cluster: %q", health)
			}
		}
		ctl(t, s.Endpoint(), "", "get", "a").must(t) // the newest: the output below shows what each member has seen
	}

	leader, before := statusOf(t, all[0], "endpoint", "status", "--cluster")
	if len(before) != 3 {
		t.Fatalf("endpoint status --cluster shows %v", before)
	}
	for _, st := range before {
		if st.Status.Leader != leader || st.Status.Header.Revision != 2 ||
			!strings.HasPrefix(st.Status.Version, "3.7.") {
			t.Errorf("endpoint status --cluster: %+v", st)
		}
	}
	at := slices.IndexFunc(before, func(st clusterStatus) bool { return st.Status.Header.MemberID == leader })
	if at < 0 {
		t.Fatalf("the leader %x is not among the members %v", leader, before)
	}
	for _, command := range []string{"endpoint status --cluster", "endpoint health --cluster", "member list"} {
		args := append(strings.Split(command, " "), "-w", "json")
		shape = append(shape, fields(t, ctl(t, all[0].Endpoint(), "", args...).must(t))...)
	}

	killed := slices.IndexFunc(all, func(s *launch.Server) bool { return s.ClientURL() == before[at].Endpoint })
	all[killed].Kill()
	rest := slices.Delete(slices.Clone(all), killed, killed+1)
	deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		now := map[uint64]bool{}
		for _, s := range rest {
			led, _ := statusOf(t, s, "endpoint", "status")
			now[led] = true
		}
		if len(now) == 1 && !now[leader] && !now[0] {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("a minute after the leader %x was killed, leaders are %v", leader, slices.Collect(maps.Keys(now)))
		}
	}
	for _, s := range rest {
		ctl(t, s.Endpoint(), "", "put", "a", "2").must(t)
	}
	return shape
}

// listed waits for count lines of `member list`: replicas discover each other within about a second.
func listed(t *testing.T, s *launch.Server, count int) []string {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		members := strings.Split(strings.TrimSpace(ctl(t, s.Endpoint(), "", "member", "list").must(t)), "\n")
		if len(members) == count {
			return members
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after a minute the members are %q", members)
		}
	}
}

// statusOf runs a command that prints the status of members, and returns the leader that the first one reports.
func statusOf(t *testing.T, s *launch.Server, args ...string) (leader uint64, all []clusterStatus) {
	t.Helper()
	out := ctl(t, s.Endpoint(), "", append(args, "-w", "json")...).must(t)
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) == 0 {
		t.Fatalf("%v in %s", err, out)
	}
	return all[0].Status.Leader, all
}
